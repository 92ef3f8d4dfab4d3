// Package export_wit_world is an example: a Website owns a Deployment and a
// Service, and says in its status how they fare. The same controller is there in
// Rust and in Python; one set of scenarios holds for all three.
//
// Nothing but the standard library and the bindings that wit-bindgen makes of the
// contract (wit/).
package export_wit_world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	m "wit_component/coxswain_controller_manifest"
	r "wit_component/coxswain_controller_reconcile"
	"wit_component/coxswain_controller_snapshot"
	"wit_component/coxswain_controller_types"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// Positions in Request.Resources, which follows the manifest's reads.
const (
	websites = iota
	configMaps
	deployments
	services
)

var (
	resources = []coxswain_controller_types.GroupResource{
		{Group: "demo.coxswain.dev", Version: "v1", Resource: "websites"},
		{Group: "", Version: "v1", Resource: "configmaps"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "", Version: "v1", Resource: "services"},
	}
	fields = [][]string{
		{"spec.{image,replicas,port,host,config}", "status.{observedGeneration,readyReplicas,conditions}"},
		{"data"},
		{
			"spec.replicas",
			`spec.template.metadata.annotations."` + configHash + `"`,
			"spec.template.spec.containers[*].{name,image}",
			"spec.template.spec.containers[*].ports[*].containerPort",
			"spec.template.spec.containers[*].envFrom[*].configMapRef.name",
			"status.{observedGeneration,updatedReplicas,readyReplicas}",
		},
		{"spec.selector", "spec.ports[*].{name,port,targetPort}"},
	}
)

const (
	// The label that says whose something is.
	label = "demo.coxswain.dev/website"
	// Moves when the configuration does, so that pods are replaced.
	configHash = "demo.coxswain.dev/config-hash"
)

// Describe says what the module is.
func Describe() m.Manifest {
	manifest := m.Manifest{
		Name:    "website-controller",
		Aliases: []string{"website"},
		Version: "0.1.0-go",
		Sources: []m.KeySource{{
			Name: "websites",
			Keys: m.MakeKeyKindObjects([]coxswain_controller_types.GroupResource{resources[websites]}),
		}},
		Writes: []m.WriteRule{
			{Resource: resources[deployments], Verbs: []string{"create", "patch"}},
			{Resource: resources[services], Verbs: []string{"create", "patch"}},
			{Resource: resources[websites], Subresource: "status", Verbs: []string{"patch"}},
			// Owner references that block the owner's deletion ask for this.
			{Resource: resources[websites], Subresource: "finalizers", Verbs: []string{"update"}},
		},
		Lookups: []m.LookupRule{m.MakeLookupRuleGet(m.ResourceRule{Resource: resources[websites]})},
	}
	for i, resource := range resources {
		manifest.Reads = append(manifest.Reads, m.Read{Resource: resource, Fields: fields[i]})
	}
	manifest.Reads[websites].Indexes = []m.Index{{Name: "host", Paths: []string{"spec.host"}}}
	return manifest
}

// askFirst is a lookup that must be answered before there can be a plan.
type askFirst struct{ lookup r.Lookup }

func (askFirst) Error() string { return "a lookup is not answered yet" }

// Reconcile decides what is to be done for one website.
func Reconcile(request r.Request) (result wit.Result[r.Outcome, string]) {
	// A panic that leaves this function would be a trap, so none does.
	defer func() {
		if why := recover(); why != nil {
			result = wit.Err[r.Outcome, string](fmt.Sprint(why))
		}
	}()
	plan, err := (&reconcile{Request: request}).plan()
	switch err := err.(type) {
	case nil:
		return wit.Ok[r.Outcome, string](r.MakeOutcomePlan(plan))
	case askFirst:
		return wit.Ok[r.Outcome, string](r.MakeOutcomeLookups([]r.Lookup{err.lookup}))
	default:
		return wit.Ok[r.Outcome, string](r.MakeOutcomeRetry(err.Error()))
	}
}

// object is JSON as it was read.
type object = map[string]any

// meta is what is used of an object's metadata.
type meta struct {
	Name, Namespace, UID string
	Generation           int64
	CreationTimestamp    string
	DeletionTimestamp    *string
	Labels               map[string]string
	OwnerReferences      []struct {
		UID        string
		Controller bool
	}
}

// website is what is read of one.
type website struct {
	Metadata meta
	Spec     struct {
		Image          string
		Replicas, Port *int64
		Host, Config   string
	}
	Status object
}

// child is what is read of a Deployment or a Service.
type child struct {
	Metadata meta
	Spec     object
	Status   struct{ ObservedGeneration, UpdatedReplicas, ReadyReplicas int64 }
}

// reconcile is one reconcile of one website.
type reconcile struct {
	r.Request
	site           website
	replicas, port int64
}

// verdict is what the condition Ready says.
type verdict struct {
	ready           bool
	reason, message string
}

func (c *reconcile) plan() (plan r.Plan, err error) {
	plan.State = r.MakeStateChangeKeep()
	plan.NotBefore = wit.None[coxswain_controller_types.Timestamp]()
	if c.Primary.IsNone() {
		return plan, nil
	}
	if err := read(c.Primary.Some(), &c.site); err != nil {
		return plan, err
	}
	spec, own := &c.site.Spec, &c.site.Metadata
	if own.DeletionTimestamp != nil {
		return plan, nil // What it owns is the garbage collector's.
	}
	c.replicas, c.port = or(spec.Replicas, 1), or(spec.Port, 80)

	deployment, err := get[child](c, deployments, own.Name)
	if err != nil {
		return plan, err
	}
	service, err := get[child](c, services, own.Name)
	if err != nil {
		return plan, err
	}
	var config *struct{ Data map[string]string }
	if spec.Config != "" {
		if config, err = get[struct{ Data map[string]string }](c, configMaps, spec.Config); err != nil {
			return plan, err
		}
	}
	winner, err := c.hostWinner()
	if err != nil {
		return plan, err
	}

	of := [2]standing{c.standing(deployment), c.standing(service)}
	var says verdict
	switch {
	case winner != nil && winner.UID != own.UID:
		says = verdict{false, "HostTaken",
			fmt.Sprintf("%s belongs to website %s/%s", spec.Host, winner.Namespace, winner.Name)}
	case spec.Config != "" && config == nil:
		says = verdict{false, "ConfigMissing", "there is no ConfigMap " + spec.Config}
	case of[0] == foreign:
		says = verdict{false, "NameTaken", fmt.Sprintf("Deployment %s is not this website's", own.Name)}
	case of[1] == foreign:
		says = verdict{false, "NameTaken", fmt.Sprintf("Service %s is not this website's", own.Name)}
	default:
		if of[0] == orphan || of[1] == orphan {
			if there, err := c.stillThere(); err != nil || !there {
				return plan, err
			}
		}
		wanted := c.wantedDeployment()
		if config != nil {
			c.addConfig(wanted, config.Data)
		}
		actions := slices.Concat(
			c.bringAbout(deployments, "Deployment", deployment, wanted),
			c.bringAbout(services, "Service", service, c.wantedService()),
		)
		if len(actions) > 0 {
			plan.Steps = append(plan.Steps, r.Step{Actions: actions, OnFailure: r.OnFailureGoOn})
			says = c.progress(nil)
		} else {
			says = c.progress(deployment)
		}
	}
	ready := int64(0)
	if of[0] == owned {
		ready = deployment.Status.ReadyReplicas
	}
	if action := c.writeStatus(ready, says); action != nil {
		plan.Steps = append(plan.Steps, r.Step{Actions: []r.Action{*action}})
	}
	return plan, nil
}

// Reading.

func read(ref coxswain_controller_types.ObjectRef, into any) error {
	result := coxswain_controller_snapshot.Read([]coxswain_controller_types.ObjectRef{ref})
	if result.IsErr() {
		return fmt.Errorf("%s", result.Err())
	}
	return json.Unmarshal([]byte(result.Ok()[0]), into)
}

func get[T any](c *reconcile, which int, name string) (*T, error) {
	result := coxswain_controller_snapshot.Get(c.Resources[which], c.Key.Namespace, name)
	if result.IsErr() {
		return nil, fmt.Errorf("%s", result.Err())
	}
	if result.Ok().IsNone() {
		return nil, nil
	}
	found := new(T)
	return found, read(result.Ok().Some(), found)
}

// hostWinner gives metadata of the website to which this one's host belongs: the
// oldest.
func (c *reconcile) hostWinner() (*meta, error) {
	host := c.site.Spec.Host
	if host == "" {
		return nil, nil
	}
	refs := coxswain_controller_snapshot.List(coxswain_controller_snapshot.Query{
		Resources: coxswain_controller_snapshot.MakeResourceSetOne(c.Resources[websites]),
		Namespace: wit.None[string](),
		Index: wit.Some(coxswain_controller_snapshot.IndexMatch{
			Index: "host", Value: []string{host},
		}),
		Labels: wit.None[string](),
	})
	if refs.IsErr() {
		return nil, fmt.Errorf("%s", refs.Err())
	}
	var oldest *meta
	for _, ref := range refs.Ok() {
		var claim website
		if err := read(ref, &claim); err != nil {
			return nil, err
		}
		rank := func(of *meta) string {
			return strings.Join([]string{of.CreationTimestamp, of.Namespace, of.Name}, "\x00")
		}
		staying := claim.Metadata.DeletionTimestamp == nil
		if staying && (oldest == nil || rank(&claim.Metadata) < rank(oldest)) {
			oldest = &claim.Metadata
		}
	}
	return oldest, nil
}

// stillThere says whether the website exists and is to stay, read past the cache:
// what is adopted by an owner that is gone would be collected.
func (c *reconcile) stillThere() (bool, error) {
	own := &c.site.Metadata
	for _, answer := range c.Answers {
		if answer.Id != "still there" {
			continue
		}
		if answer.Result.IsOk() {
			var live website
			err := json.Unmarshal([]byte(answer.Result.Ok()), &live)
			return live.Metadata.DeletionTimestamp == nil, err
		}
		failure := answer.Result.Err()
		if failure.Status == 404 {
			return false, nil
		}
		return false, fmt.Errorf("cannot read website %s: %s", own.Name, failure.Message)
	}
	return false, askFirst{r.Lookup{Id: "still there", Ask: r.MakeAskGet(r.GetLookup{
		Resource: c.Resources[websites], Namespace: own.Namespace, Name: own.Name,
		MetadataOnly: true, Uid: own.UID,
	})}}
}

// Deciding.

// standing is how something under the website's name stands to it.
type standing int

const (
	missing standing = iota
	owned            // The website owns it.
	orphan           // Nobody owns it, and its label says that it was the website's.
	foreign          // It is somebody else's.
)

func (c *reconcile) standing(found *child) standing {
	if found == nil {
		return missing
	}
	of := &found.Metadata
	for _, owner := range of.OwnerReferences {
		if owner.Controller && owner.UID == c.site.Metadata.UID {
			return owned
		} else if owner.Controller {
			return foreign
		}
	}
	if of.Labels[label] == c.site.Metadata.Name && of.DeletionTimestamp == nil {
		return orphan
	}
	return foreign
}

func (c *reconcile) labels() object {
	return object{label: c.site.Metadata.Name}
}

func (c *reconcile) wantedDeployment() object {
	container := object{
		"name":  "web",
		"image": c.site.Spec.Image,
		"ports": []any{object{"containerPort": c.port}},
	}
	return object{
		"replicas": c.replicas,
		"template": object{
			"metadata": object{"annotations": object{}},
			"spec":     object{"containers": []any{container}},
		},
	}
}

func (c *reconcile) addConfig(deployment object, data map[string]string) {
	template := deployment["template"].(object)
	template["metadata"].(object)["annotations"].(object)[configHash] = hashOf(data)
	container := template["spec"].(object)["containers"].([]any)[0].(object)
	container["envFrom"] = []any{object{"configMapRef": object{"name": c.site.Spec.Config}}}
}

func (c *reconcile) wantedService() object {
	port := object{"name": "http", "port": 80, "targetPort": c.port}
	return object{"selector": c.labels(), "ports": []any{port}}
}

// progress is what there is to say while nothing is in the way. No Deployment is
// given while there is still something to write.
func (c *reconcile) progress(settled *child) verdict {
	for _, tag := range []string{"deployments", "services"} {
		for _, result := range c.Results {
			if result.Tag != tag || result.Result.Tag() != r.ActionOutcomeFailed {
				continue
			}
			// A conflict only says that the cache was behind; the next look settles it.
			if failure := result.Result.Failed(); failure.Status != 409 {
				return verdict{false, "WriteFailed", failure.Message}
			}
		}
	}
	if settled == nil || settled.Status.ObservedGeneration < settled.Metadata.Generation ||
		settled.Status.UpdatedReplicas < c.replicas {
		return verdict{false, "Progressing", "being rolled out"}
	}
	message := fmt.Sprintf("%d of %d replicas are ready", settled.Status.ReadyReplicas, c.replicas)
	if settled.Status.ReadyReplicas < c.replicas {
		return verdict{false, "Progressing", message}
	}
	return verdict{true, "Available", message}
}

// Writing.

func (c *reconcile) action(which int, tag string, verb r.Verb) r.Action {
	return r.Action{
		Tag:          tag,
		Resource:     c.Resources[which],
		Namespace:    c.site.Metadata.Namespace,
		Name:         c.site.Metadata.Name,
		Verb:         verb,
		Precondition: r.MakePreconditionNone(),
		OnSuccess:    wit.None[r.Event](),
		OnFailure:    wit.None[r.Event](),
	}
}

func (c *reconcile) event(kind r.EventKind, reason, message string) wit.Option[r.Event] {
	own := &c.site.Metadata
	about := r.EventTarget{
		Resource: c.Resources[websites], Namespace: own.Namespace, Name: own.Name, Uid: own.UID,
	}
	return wit.Some(r.Event{About: about, Kind: kind, Reason: reason, Message: message})
}

func patch(kind r.PatchKind, body object) r.Verb {
	return r.MakeVerbPatch(r.Patch{Kind: kind, Body: text(body)})
}

// bringAbout gives the write that brings one object to what is wanted of it; none
// if it is so.
func (c *reconcile) bringAbout(which int, kind string, found *child, wanted object) []r.Action {
	own, resource := &c.site.Metadata, &resources[which]
	owner := object{
		"apiVersion":         "demo.coxswain.dev/v1",
		"kind":               "Website",
		"name":               own.Name,
		"uid":                own.UID,
		"controller":         true,
		"blockOwnerDeletion": true,
	}
	var action r.Action
	switch c.standing(found) {
	case owned:
		change := diff(found.Spec, plain(wanted))
		if len(change) == 0 {
			return nil
		}
		action = c.action(which, resource.Resource, patch(r.PatchKindMerge, object{"spec": change}))
		action.Precondition = r.MakePreconditionUid(found.Metadata.UID)
	case orphan:
		body := object{"metadata": object{"ownerReferences": []any{owner}}}
		action = c.action(which, resource.Resource, patch(r.PatchKindStrategic, body))
		action.Precondition = r.MakePreconditionUid(found.Metadata.UID)
	default:
		if kind == "Deployment" {
			// These never change, so they are given only here.
			wanted["selector"] = object{"matchLabels": c.labels()}
			wanted["template"].(object)["metadata"].(object)["labels"] = c.labels()
		}
		body := object{
			"apiVersion": strings.TrimPrefix(resource.Group+"/"+resource.Version, "/"),
			"kind":       kind,
			"metadata": object{
				"name":            own.Name,
				"namespace":       own.Namespace,
				"labels":          c.labels(),
				"ownerReferences": []any{owner},
			},
			"spec": wanted,
		}
		action = c.action(which, resource.Resource, r.MakeVerbCreate(text(body)))
		action.OnSuccess = c.event(r.EventKindNormal, "Created", "Created "+kind+" {name}")
		action.OnFailure = c.event(r.EventKindWarning, "CreateFailed", kind+" {name}: {message}")
	}
	return []r.Action{action}
}

// writeStatus gives the patch of the status; nil if it says all this already.
func (c *reconcile) writeStatus(ready int64, says verdict) *r.Action {
	seen := plain(object{"observedGeneration": 0, "readyReplicas": 0, "conditions": []any{}})
	maps.Copy(seen, c.site.Status)
	status := "False"
	if says.ready {
		status = "True"
	}
	condition := object{
		"type":               "Ready",
		"status":             status,
		"reason":             says.reason,
		"message":            says.message,
		"lastTransitionTime": time.Unix(int64(c.Now.Seconds), 0).UTC().Format(time.RFC3339),
	}
	conditions := slices.Clone(seen["conditions"].([]any))
	place := slices.IndexFunc(conditions, func(c any) bool { return c.(object)["type"] == "Ready" })
	if place < 0 {
		conditions = append(conditions, condition)
	} else {
		before := conditions[place].(object)
		// The time moves only with the status.
		if before["status"] == status {
			condition["lastTransitionTime"] = before["lastTransitionTime"]
		}
		conditions[place] = condition
	}
	change := diff(seen, plain(object{
		"observedGeneration": c.site.Metadata.Generation,
		"readyReplicas":      ready,
		"conditions":         conditions,
	}))
	if len(change) == 0 {
		return nil
	}
	action := c.action(websites, "status", patch(r.PatchKindMerge, object{"status": change}))
	action.Subresource = "status"
	return &action
}
