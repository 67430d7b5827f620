// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// wrongField is a value that does not fit its field.
type wrongField struct{ path, value, wanted string }

func (w *wrongField) Error() string {
	if w.path == "" {
		return fmt.Sprintf("%s: wanted %s", w.value, w.wanted)
	}
	return fmt.Sprintf("%s: %s: wanted %s", w.path, w.value, w.wanted)
}

// findWrongField looks for the first value in v, decoded JSON with numbers kept
// as text, that does not fit type t. JSON decoders name the field without its
// index, or not at all where a type decodes itself; people need both.
func findWrongField(t reflect.Type, v any, path string) *wrongField {
	if v == nil {
		return nil // null is accepted everywhere
	}
	wrong := func(wanted string) *wrongField {
		raw, _ := stdjson.Marshal(v)
		return &wrongField{path, brief(raw), wanted}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[stdjson.Unmarshaler]()) {
		raw, _ := stdjson.Marshal(v)
		if err := stdjson.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
			return wrong(wantedByType(t))
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return findWrongField(t.Elem(), v, path)
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("an object with named fields")
		}
		return findWrongMember(t, m, path)
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("an object with named fields")
		}
		for name, e := range m {
			if w := findWrongField(t.Elem(), e, path+"["+name+"]"); w != nil {
				return w
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			if _, ok := v.(string); !ok {
				return wrong("text in base64")
			}
			return nil
		}
		l, ok := v.([]any)
		if !ok {
			return wrong("a list")
		}
		for i, e := range l {
			if w := findWrongField(t.Elem(), e, path+"["+strconv.Itoa(i)+"]"); w != nil {
				return w
			}
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			return wrong("text; put it in quotes")
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrong("true or false")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := v.(stdjson.Number)
		if !ok {
			return wrong("a whole number, without quotes")
		}
		if _, err := strconv.ParseInt(n.String(), 10, t.Bits()); err != nil {
			return wrong(fmt.Sprintf("a whole number of at most %d bits", t.Bits()))
		}
	default: // the objects have no others
	}
	return nil
}

// findWrongMember looks through the fields of a struct, in order.
func findWrongMember(t reflect.Type, m map[string]any, path string) *wrongField {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			if w := findWrongMember(f.Type, m, path); w != nil {
				return w
			}
		case name != "":
			sub := name
			if path != "" {
				sub = path + "." + name
			}
			if w := findWrongField(f.Type, m[name], sub); w != nil {
				return w
			}
		}
	}
	return nil
}

// wantedByType says what a type that decodes itself accepts.
func wantedByType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time such as 2026-01-31T12:00:00Z"
	case reflect.TypeFor[intstr.IntOrString]():
		return "a port number, or the name of a port"
	case reflect.TypeFor[apiresource.Quantity]():
		return "a quantity such as 100m or 2Gi"
	}
	return "a " + t.String()
}
