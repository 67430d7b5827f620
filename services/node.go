// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/resolve"
)

// setNode takes up what services depend on of this node: zone and addresses.
// Other changes of the object, which are frequent, concern nobody (I8).
//
// That the object is gone makes the node no target for load balancers (J10). It
// is no reason to take its addresses away: whoever deleted it, the node is
// there, and its node ports may have users.
func (s *Server) setNode(n *corev1.Node, deleted bool) {
	s.st.node = n
	if deleted {
		s.st.node = nil
		return
	}
	node, problems := resolve.NodeFrom(n)
	for _, p := range problems {
		s.log.WithFields(logrus.Fields{"node": n.Name, "field": p.Field, "reason": p.Reason}).Warn(p.Message)
	}
	s.nodeObject = node
	s.nodeChanged()
}

// nodeChanged puts together what the configuration, the Node object and VPP say
// of this node. All Services are resolved again if that is something new.
func (s *Server) nodeChanged() {
	node := s.nodeObject
	node.Name = s.cfg.NodeName
	own := slices.Clone(s.vppOwn)
	if len(s.cfg.NodeIPs) > 0 {
		own = append(own, node.Addresses...)
		node.Addresses = slices.Clone(s.cfg.NodeIPs)
	}
	own = slices.DeleteFunc(own, func(a netip.Addr) bool { return slices.Contains(node.Addresses, a) })
	slices.SortFunc(own, netip.Addr.Compare)
	node.Own = slices.Compact(own)
	if reflect.DeepEqual(node, s.node) {
		return
	}
	s.node = node
	s.rejects.want = nil
	s.markDirty(s.st.ids()...)
}
