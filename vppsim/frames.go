// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/codec"
)

// A frame is a header of 16 bytes, of which only the length at 8:12 has a
// meaning between processes, and a message: u16 id, then u32 client index and
// u32 context in a request, or u32 context in a reply, then the fields.
const (
	headerLen = 16

	// maxMessage bounds what a client can make the simulator buffer. An update
	// with 20,000 paths has about 1 MiB (F8).
	maxMessage = 16 << 20

	requestOffset = 2 + 4 + 4
	replyOffset   = 2 + 4
)

var errFrame = errors.New("malformed frame")

// readFrame returns the next message, in buf if that is large enough. The
// capacity of the message is its length, because the codec would read beyond
// the end of a truncated one otherwise. An error that is errFrame means that
// the stream cannot be followed any more.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[8:12])
	if n < replyOffset || n > maxMessage {
		return nil, fmt.Errorf("%w: message of %d bytes, wanted %d to %d", errFrame, n, replyOffset, maxMessage)
	}
	if uint32(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	return buf, nil
}

// wireMessage is a message that can be put on the wire.
type wireMessage interface {
	api.Message
	codec.Marshaler
}

// appendFrame appends a message from VPP to a client.
func appendFrame(dst []byte, id uint16, index, context uint32, m wireMessage) ([]byte, error) {
	offset := replyOffset
	if m.GetMessageType() == api.RequestMessage {
		// sockclnt_create_reply has a client index in front of the context.
		offset = requestOffset
	}
	n := offset + m.Size()
	start := len(dst)
	dst = append(dst, make([]byte, headerLen+n)...)
	frame := dst[start:]
	binary.BigEndian.PutUint32(frame[8:12], uint32(n))
	body := frame[headerLen:]
	binary.BigEndian.PutUint16(body, id)
	if offset == requestOffset {
		binary.BigEndian.PutUint32(body[2:], index)
	}
	binary.BigEndian.PutUint32(body[offset-4:], context)
	if n == offset {
		return dst, nil
	}
	if _, err := m.Marshal(body[offset:]); err != nil {
		return dst[:start], fmt.Errorf("%s: %w", m.GetMessageName(), err)
	}
	return dst, nil
}
