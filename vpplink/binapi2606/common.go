// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package binapi2606

import (
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
)

// ControlPing is control_ping, which ends a dump of this package on a stream
// (see the package comment).
type ControlPing struct{ memclnt.ControlPing }

// ControlPingReply is control_ping_reply.
type ControlPingReply struct{ memclnt.ControlPingReply }

// empty is the body of a request without fields.
type empty struct{}

// GetCrcString implements api.Message.
func (*empty) GetCrcString() string { return emptyCRC }

// GetMessageType implements api.Message.
func (*empty) GetMessageType() api.MessageType { return api.RequestMessage }

// Size implements codec.Marshaler.
func (*empty) Size() int { return 0 }

// Marshal implements codec.Marshaler.
func (*empty) Marshal(b []byte) ([]byte, error) { return b[:0], nil }

// Unmarshal implements codec.Unmarshaler.
func (*empty) Unmarshal([]byte) error { return nil }

// retval is the body of a reply that only says whether it worked.
type retval struct {
	// Retval is zero or one of VPP's negative API errors.
	Retval int32
}

// GetCrcString implements api.Message.
func (*retval) GetCrcString() string { return retvalCRC }

// GetMessageType implements api.Message.
func (*retval) GetMessageType() api.MessageType { return api.ReplyMessage }

// Size implements codec.Marshaler.
func (*retval) Size() int { return 4 }

// Marshal implements codec.Marshaler.
func (m *retval) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	buf.EncodeInt32(m.Retval)
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *retval) Unmarshal(b []byte) error {
	m.Retval = codec.NewBuffer(b).DecodeInt32()
	return nil
}

// buffer returns a codec buffer over b, or over new memory when b is nil, as
// callers of Marshal may ask for.
func buffer(b []byte, size int) *codec.Buffer {
	if b == nil {
		b = make([]byte, size)
	}
	return codec.NewBuffer(b)
}
