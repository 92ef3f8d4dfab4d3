package export_wit_world

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
)

// text is a value as JSON. What the controller makes always has one.
func text(value any) string {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(bytes)
}

// plain is an object as it would be read: all numbers of one type.
func plain(made object) (read object) {
	if err := json.Unmarshal([]byte(text(made)), &read); err != nil {
		panic(err)
	}
	return read
}

// diff is the smallest merge patch (RFC 7386) that turns one into the other. A map
// that is empty is none: an API server drops it.
func diff(seen, wanted object) object {
	change := object{}
	for field := range seen {
		if _, ok := wanted[field]; !ok {
			change[field] = nil
		}
	}
	for field, value := range wanted {
		before, isMap := seen[field].(object)
		inner, wantsMap := value.(object)
		switch {
		case wantsMap && (isMap || seen[field] == nil):
			if inner := diff(before, inner); len(inner) > 0 {
				change[field] = inner
			}
		case !reflect.DeepEqual(seen[field], value):
			change[field] = value
		}
	}
	return change
}

// hashOf is FNV-1a over keys and values, each with a zero byte after it.
func hashOf(data map[string]string) string {
	hash := fnv.New32a()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(hash, "%s\x00%s\x00", key, data[key])
	}
	return fmt.Sprintf("%08x", hash.Sum32())
}

func or(value *int64, otherwise int64) int64 {
	if value == nil {
		return otherwise
	}
	return *value
}
