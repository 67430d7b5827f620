// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"
)

// wantedKinds says what is read, for messages.
const wantedKinds = "a Service (apiVersion v1), an EndpointSlice (discovery.k8s.io/v1), a Node (v1) or a ServiceCIDR (networking.k8s.io/v1)"

// object is what the package moves: every typed API object is one.
type object interface {
	metav1.Object
	runtime.Object
}

// newObject returns an empty object of a kind that is read, or nil.
func newObject(t metav1.TypeMeta) object {
	switch t {
	case metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return &corev1.Service{}
	case metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}:
		return &corev1.Node{}
	case metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}:
		return &discoveryv1.EndpointSlice{}
	case metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"}:
		return &networkingv1.ServiceCIDR{}
	}
	return nil
}

// typeOf is the inverse of newObject; the zero TypeMeta for other types.
func typeOf(obj metav1.Object) metav1.TypeMeta {
	switch obj.(type) {
	case *corev1.Service:
		return metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	case *corev1.Node:
		return metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	case *discoveryv1.EndpointSlice:
		return metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
	case *networkingv1.ServiceCIDR:
		return metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"}
	}
	return metav1.TypeMeta{}
}

// setType fills in apiVersion and kind, which clients leave empty.
func setType(obj object, t metav1.TypeMeta) {
	obj.GetObjectKind().SetGroupVersionKind(t.GroupVersionKind())
}

// objectKey names an object among all kinds.
type objectKey struct{ kind, namespace, name string }

func keyOf(obj metav1.Object) objectKey {
	return objectKey{typeOf(obj).Kind, obj.GetNamespace(), obj.GetName()}
}

// String prints the key as people write it.
func (k objectKey) String() string {
	switch {
	case k.name == "":
		return k.kind
	case k.namespace == "":
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

func (k objectKey) compare(o objectKey) int {
	for _, c := range []int{strings.Compare(k.kind, o.kind), strings.Compare(k.namespace, o.namespace), strings.Compare(k.name, o.name)} {
		if c != 0 {
			return c
		}
	}
	return 0
}

// unreadKind is the error for an object of a kind that is not read.
type unreadKind struct{ metav1.TypeMeta }

func (u unreadKind) Error() string {
	if u.Kind == "Endpoints" {
		return "Endpoints (v1) are not read: wanted the backends as an EndpointSlice (discovery.k8s.io/v1)"
	}
	return fmt.Sprintf("%s (%s) is not read: wanted %s", u.Kind, u.APIVersion, wantedKinds)
}

// likely tells whether whoever wrote the object expects it to count here.
func (u unreadKind) likely() bool {
	switch strings.TrimSuffix(u.Kind, "List") {
	case "Service", "EndpointSlice", "Node", "ServiceCIDR", "Endpoints":
		return true
	}
	return false
}

// clusterScoped tells whether objects of a kind have no namespace.
func clusterScoped(kind string) bool { return kind == "Node" || kind == "ServiceCIDR" }

// header is what must be known of an object before its type is.
type header struct {
	metav1.TypeMeta
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// key names the object for messages, as far as it has a name.
func (h *header) key() objectKey {
	k := objectKey{h.Kind, h.Metadata.Namespace, h.Metadata.Name}
	if k.namespace == "" && k.name != "" && !clusterScoped(k.kind) {
		k.namespace = metav1.NamespaceDefault
	}
	return k
}

// readHeader reads the header of a JSON document. inherited is the type of
// documents that name none: the items of a typed list.
func readHeader(raw []byte, inherited metav1.TypeMeta) (*header, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, fmt.Errorf("%s: wanted an object: %s", brief(raw), wantedKinds)
	}
	h := &header{}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, h); err != nil {
		return nil, describe(raw, reflect.TypeFor[header](), err)
	}
	if h.APIVersion == "" && h.Kind == "" {
		h.TypeMeta = inherited
	}
	switch {
	case h.Kind == "":
		return nil, fmt.Errorf("kind: missing: wanted %s", wantedKinds)
	case h.APIVersion == "":
		return nil, fmt.Errorf("%s: apiVersion: missing: wanted %s", h.key(), wantedKinds)
	}
	return h, nil
}

// decodeObject reads one object from JSON. Fields that are not known are
// returned as warnings, since a newer server may print them; what cannot be
// understood is an error that names the object, the field and what is accepted;
// a kind that is not read gives an unreadKind.
func decodeObject(raw []byte, inherited metav1.TypeMeta) (obj object, warnings []string, err error) {
	h, err := readHeader(raw, inherited)
	if err != nil {
		return nil, nil, err
	}
	if obj = newObject(h.TypeMeta); obj == nil {
		return nil, nil, unreadKind{h.TypeMeta}
	}
	strict, err := json.UnmarshalStrict(raw, obj)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", h.key(), describe(raw, reflect.TypeOf(obj).Elem(), err))
	}
	if err := complete(obj, h.TypeMeta); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", h.key(), err)
	}
	for _, s := range strict {
		warnings = append(warnings, fmt.Sprintf("%s: %v, ignored", h.key(), s))
	}
	return obj, warnings, nil
}

// complete gives an object what the API server would have: a namespace, its
// type, and the name and protocol of a slice's ports. Nothing else is made up: a creationTimestamp that is not there stays
// zero (then namespace and name decide who was first), and so does the UID.
func complete(obj object, t metav1.TypeMeta) error {
	setType(obj, t)
	obj.SetManagedFields(nil)
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		for i := range slice.Ports {
			p := &slice.Ports[i]
			p.Name, p.Protocol = cmp.Or(p.Name, new(string)), cmp.Or(p.Protocol, ptr.To(corev1.ProtocolTCP))
		}
	}
	name, namespace := obj.GetName(), obj.GetNamespace()
	if name == "" {
		return errors.New("metadata.name: missing: wanted the name of the object")
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("metadata.name: %q: wanted lower case letters, digits, '-' and '.'", name)
	}
	if clusterScoped(t.Kind) {
		obj.SetNamespace("")
		return nil
	}
	if namespace == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	} else if len(validation.IsDNS1123Label(namespace)) > 0 {
		return fmt.Errorf("metadata.namespace: %q: wanted lower case letters, digits and '-'", namespace)
	}
	return nil
}

// describe says in our words why raw could not be decoded as type t: the field
// and what is accepted. err is what the decoder said, for when the search finds
// nothing.
func describe(raw []byte, t reflect.Type, err error) error {
	d := stdjson.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) == nil {
		if found := findWrongField(t, v, ""); found != nil {
			return found
		}
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// brief prints the beginning of a value for a message.
func brief(raw []byte) string {
	const most = 60
	s := strings.Join(strings.Fields(string(raw[:min(len(raw), 4*most)])), " ")
	if len(s) > most || len(raw) > 4*most {
		return strings.ToValidUTF8(s[:min(len(s), most)], "") + "..."
	}
	if s == "" {
		return "nothing"
	}
	return s
}
