// Command generate writes the schema data of the embedded API server from the
// published Go types and OpenAPI document of Kubernetes.
//
// It runs inside a checkout of kubernetes/kubernetes, so that it needs nothing
// but that checkout: see README.md beside this directory.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	dra "k8s.io/kubernetes/pkg/apis/resource"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// groupVersions are the ones that a server with default settings offers.
var groupVersions = []string{
	"v1", "apiregistration.k8s.io/v1", "apps/v1", "events.k8s.io/v1",
	"authentication.k8s.io/v1", "authorization.k8s.io/v1", "autoscaling/v2",
	"autoscaling/v1", "batch/v1", "certificates.k8s.io/v1", "networking.k8s.io/v1",
	"policy/v1", "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1",
	"admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1",
	"scheduling.k8s.io/v1", "coordination.k8s.io/v1", "node.k8s.io/v1",
	"discovery.k8s.io/v1", "resource.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1",
}

type swagger struct {
	Definitions map[string]map[string]any `json:"definitions"`
}

type generator struct {
	definitions map[string]map[string]any
	defaults    map[string]map[string]any
	types       map[string]map[string]any
	docs        map[string]map[string]string
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate KUBERNETES_CHECKOUT OUT_DIRECTORY")
		os.Exit(2)
	}
	from, to := os.Args[1], os.Args[2]
	raw, err := os.ReadFile(filepath.Join(from, "api/openapi-spec/swagger.json"))
	check(err)
	var doc swagger
	check(json.Unmarshal(raw, &doc))

	check(apiextensionsv1.AddToScheme(scheme.Scheme))
	check(apiregistrationv1.AddToScheme(scheme.Scheme))

	g := &generator{doc.Definitions, defaults(from), map[string]map[string]any{}, map[string]map[string]string{}}
	kinds := map[string]string{}
	for _, name := range groupVersions {
		gv, err := schema.ParseGroupVersion(name)
		check(err)
		for kind, t := range scheme.Scheme.KnownTypes(gv) {
			if strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") {
				continue
			}
			kinds[name+"/"+kind] = g.expression(t)
		}
	}
	for _, t := range []reflect.Type{
		reflect.TypeOf(metav1.DeleteOptions{}), reflect.TypeOf(metav1.Status{}),
		reflect.TypeOf(metav1.CreateOptions{}), reflect.TypeOf(metav1.PatchOptions{}),
		reflect.TypeOf(metav1.UpdateOptions{}), reflect.TypeOf(metav1.ListMeta{}),
		reflect.TypeOf(metav1.PartialObjectMetadata{}), reflect.TypeOf(metav1.PartialObjectMetadataList{}),
	} {
		kinds["meta.k8s.io/v1/"+t.Name()] = g.expression(t)
	}
	write(filepath.Join(to, "schema.json.gz"), map[string]any{"kinds": kinds, "types": g.types})
	write(filepath.Join(to, "docs.json.gz"), g.docs)
	write(filepath.Join(to, "resources.json.gz"), resources(from))
	in := &internal{map[string][]any{}}
	for internal, published := range map[any]any{
		&core.PodTemplateSpec{}:          &corev1.PodTemplateSpec{},
		&core.PersistentVolumeSource{}:   &corev1.PersistentVolumeSource{},
		&batch.PodFailurePolicy{}:        &batchv1.PodFailurePolicy{},
		&batch.SuccessPolicy{}:           &batchv1.SuccessPolicy{},
		&dra.ResourceClaimSpec{}:         &resourcev1.ResourceClaimSpec{},
		&dra.ResourceClaimTemplateSpec{}: &resourcev1.ResourceClaimTemplateSpec{},
		&dra.AllocationResult{}:          &resourcev1.AllocationResult{},
	} {
		in.structure(reflect.TypeOf(internal).Elem(), reflect.TypeOf(published).Elem())
	}
	write(filepath.Join(to, "internal.json.gz"), in.types)
}

// internal collects internal types, as some messages of the server show them: every field under its Go name.
type internal struct{ types map[string][]any }

// structure notes the fields of an internal type, each with the JSON name of the same field in the published type.
func (in *internal) structure(t, published reflect.Type) string {
	name := t.Name()
	if _, done := in.types[name]; done {
		return name
	}
	in.types[name] = nil
	in.types[name] = in.fields(t, published)
	return name
}

func (in *internal) fields(t, published reflect.Type) []any {
	out := []any{}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if field.Anonymous && tag[0] == "" {
			inner, same := deref(field.Type), published
			if f, ok := published.FieldByName(field.Name); ok {
				same = deref(f.Type)
			}
			out = append(out, in.fields(inner, same)...)
			continue
		}
		printed, jsonName := field.Name, ""
		flags := ""
		if tag[0] != "" {
			printed = tag[0]
			if len(tag) > 1 {
				flags = "o"
			}
		}
		other := field.Type
		if f, ok := published.FieldByName(field.Name); ok {
			jsonName = strings.Split(f.Tag.Get("json"), ",")[0]
			other = f.Type
		} else if f, ok := reflect.TypeOf(corev1.PodSpec{}).FieldByName(field.Name); ok {
			// Fields that the published type keeps one level up.
			jsonName = "^" + strings.Split(f.Tag.Get("json"), ",")[0]
			other = f.Type
		}
		if field.Type.Kind() == reflect.Pointer {
			flags += "p"
		}
		out = append(out, []any{printed, jsonName, in.expression(field.Type, other), flags})
	}
	return out
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (in *internal) expression(t, published reflect.Type) string {
	t, published = deref(t), deref(published)
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "value"
		}
		return "[]" + in.expression(t.Elem(), elem(published, t))
	case reflect.Map:
		return "{}" + in.expression(t.Elem(), elem(published, t))
	case reflect.Struct:
		switch t {
		case reflect.TypeOf(resource.Quantity{}), reflect.TypeOf(intstr.IntOrString{}), reflect.TypeOf(metav1.Time{}):
			return "value"
		}
		if published.Kind() != reflect.Struct {
			published = t
		}
		return in.structure(t, published)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	default:
		return "number"
	}
}

func elem(t, instead reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return instead.Elem()
}

// resources are the discovery documents of the group versions, in the order of groupVersions.
func resources(from string) []any {
	lists := []any{}
	for _, name := range groupVersions {
		file := "apis__" + strings.ReplaceAll(name, "/", "__") + ".json"
		if !strings.Contains(name, "/") {
			file = "api__" + name + ".json"
		}
		raw, err := os.ReadFile(filepath.Join(from, "api/discovery", file))
		check(err)
		var list map[string]any
		check(json.Unmarshal(raw, &list))
		lists = append(lists, map[string]any{"groupVersion": list["groupVersion"], "resources": list["resources"]})
	}
	return lists
}

// expression names a Go type: a scalar, `[]T`, `{}T` or a structure.
func (g *generator) expression(t reflect.Type) string {
	switch t {
	case reflect.TypeOf(metav1.Time{}):
		return "time"
	case reflect.TypeOf(metav1.MicroTime{}):
		return "microtime"
	case reflect.TypeOf(metav1.Duration{}):
		return "duration"
	case reflect.TypeOf(resource.Quantity{}):
		return "quantity"
	case reflect.TypeOf(intstr.IntOrString{}):
		return "intorstring"
	case reflect.TypeOf(metav1.FieldsV1{}):
		return "fields"
	case reflect.TypeOf(runtime.RawExtension{}):
		return "raw"
	case reflect.TypeOf(apiextensionsv1.JSON{}):
		return "json"
	case reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrArray{}),
		reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrBool{}),
		reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrStringArray{}):
		return "json"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.expression(t.Elem())
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Int32:
		return "i32"
	case reflect.Int64, reflect.Int:
		return "i64"
	case reflect.Float64:
		return "f64"
	case reflect.Uint8:
		return "u8"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + g.expression(t.Elem())
	case reflect.Map:
		return "{}" + g.expression(t.Elem())
	case reflect.Struct:
		name := definitionName(t)
		g.structure(name, t)
		return name
	}
	panic("no expression for " + t.String())
}

// definitionName is the name the OpenAPI document gives the type.
func definitionName(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	host := strings.Split(parts[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(append(host, parts[1:]...), t.Name()), ".")
}

func (g *generator) structure(name string, t reflect.Type) {
	if _, done := g.types[name]; done {
		return
	}
	out := map[string]any{}
	g.types[name] = out // before the fields, for types that contain themselves
	definition := g.definitions[name]
	properties, _ := definition["properties"].(map[string]any)
	docs := map[string]string{}
	g.docs[name] = docs
	if text, ok := definition["description"].(string); ok {
		docs[""] = text
	}
	if v, ok := definition["x-kubernetes-map-type"].(string); ok {
		out["map"] = v
	}
	if v, ok := definition["required"]; ok {
		out["required"] = v
	}
	if v, ok := definition["x-kubernetes-unions"]; ok {
		out["unions"] = v
	}
	fields := []any{}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		if field.PkgPath != "" {
			continue
		}
		tag := strings.Split(field.Tag.Get("json"), ",")
		jsonName := tag[0]
		if jsonName == "-" {
			continue
		}
		flags := ""
		for _, option := range tag[1:] {
			switch option {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			case "inline":
				flags += "i"
			}
		}
		if field.Anonymous && jsonName == "" && !strings.Contains(flags, "i") {
			flags += "i"
		}
		if field.Type.Kind() == reflect.Pointer {
			flags += "p"
		}
		number := 0
		if proto := field.Tag.Get("protobuf"); proto != "" {
			number, _ = strconv.Atoi(strings.Split(proto, ",")[1])
		}
		entry := []any{jsonName, g.expression(field.Type), flags, number}
		extra := map[string]any{}
		if v := field.Tag.Get("patchStrategy"); v != "" {
			extra["strategy"] = v
		}
		if v := field.Tag.Get("patchMergeKey"); v != "" {
			extra["key"] = v
		}
		// A named string and a named list have their own name in decoding errors, also as items of lists and maps.
		if n := field.Type; n.Name() != "" && n.PkgPath() != "" && n.Kind() != reflect.Struct {
			extra["go"] = n.String()
		} else if n.Kind() == reflect.Pointer && n.Elem().PkgPath() != "" && n.Elem().Kind() != reflect.Struct {
			extra["go"] = n.Elem().String()
		} else if (n.Kind() == reflect.Slice || n.Kind() == reflect.Map) && n.Elem().PkgPath() != "" && n.Elem().Kind() != reflect.Struct {
			extra["item"] = n.Elem().String()
		}
		if property, ok := properties[jsonName].(map[string]any); ok {
			if text, ok := property["description"].(string); ok {
				docs[jsonName] = text
			}
			for from, to := range map[string]string{
				"x-kubernetes-list-type": "list", "x-kubernetes-list-map-keys": "keys",
				"x-kubernetes-map-type": "map", "enum": "enum",
			} {
				if v, ok := property[from]; ok {
					extra[to] = v
				}
			}
		}
		// A field that is always there has its zero value anyway.
		if v, ok := g.defaults[name][jsonName]; ok && (!isZero(v) || strings.Contains(flags, "o")) {
			extra["default"] = v
		}
		if len(extra) > 0 {
			entry = append(entry, extra)
		}
		fields = append(fields, entry)
	}
	out["fields"] = fields
}

// defaults are those of the OpenAPI v3 documents, by structure and field: the v2 document has none.
func defaults(from string) map[string]map[string]any {
	out := map[string]map[string]any{}
	files, err := filepath.Glob(filepath.Join(from, "api/openapi-spec/v3/*_openapi.json"))
	check(err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		check(err)
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Properties map[string]map[string]any `json:"properties"`
				} `json:"schemas"`
			} `json:"components"`
		}
		check(json.Unmarshal(raw, &doc))
		for name, schema := range doc.Components.Schemas {
			for property, of := range schema.Properties {
				v, ok := of["default"]
				if _, structure := v.(map[string]any); !ok || structure {
					continue
				}
				if out[name] == nil {
					out[name] = map[string]any{}
				}
				out[name][property] = v
			}
		}
	}
	return out
}

func isZero(v any) bool {
	return v == nil || v == "" || v == false || v == float64(0)
}

func write(path string, v any) {
	raw, err := json.Marshal(v)
	check(err)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	check(err)
	_, err = z.Write(raw)
	check(err)
	check(z.Close())
	check(os.WriteFile(path, out.Bytes(), 0o644))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
