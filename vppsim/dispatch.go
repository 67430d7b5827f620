// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
)

// createID is the id of sockclnt_create. A client must know it before it has
// the message table, so it is the same in every VPP.
const createID = 15

// call is one request on its way through the simulator.
type call struct {
	sim     *Sim
	inst    *instance
	client  *client
	method  *method
	index   uint32 // client index in the request: where the replies go
	context uint32
	msg     api.Message

	quiet  bool  // do not answer
	retval int32 // of a message that changes VPP
	err    error // of the transport: ends the client
}

// reply queues a message for the client that the request names. VPP looks the
// client index of the request up and says nothing when it knows none.
func (c *call) reply(m wireMessage) {
	if c.quiet || c.err != nil {
		return
	}
	to := c.client
	if c.index != to.index && c.method.id != createID {
		if to = c.sim.clients[c.index]; to == nil {
			return
		}
	}
	c.err = to.send(c.inst.ids[nameCRC(m)], c.context, m)
}

// replyRetval answers with the plain reply of the method.
func (c *call) replyRetval(retval int32) {
	m := reflect.New(c.method.reply).Interface().(wireMessage) //nolint:errcheck // replies are wire messages
	if retval != 0 {
		reflect.ValueOf(m).Elem().FieldByName("Retval").SetInt(int64(retval))
	}
	if c.method.onFail != nil && retval != 0 {
		c.method.onFail(m)
	}
	c.reply(m)
}

// method is one request message and what VPP does on it.
type method struct {
	name, crc string
	id        uint16 // in the current instance
	write     bool   // changes VPP; what faults apply to by default
	reply     reflect.Type
	check     func(body []byte) error // before decoding; nil if the codec is enough
	decode    func(data []byte) (api.Message, error)
	apply     func(*call)
	onFail    func(reply wireMessage) // further fields of a failed reply
}

type requestPtr[T any] interface {
	*T
	api.Message
	codec.Unmarshaler
}

type replyPtr[T any] interface {
	*T
	wireMessage
}

// read describes a request that changes nothing; R is its reply or details.
func read[Q, R any, QP requestPtr[Q], RP replyPtr[R]](apply func(*call, QP)) *method {
	return &method{
		name:  QP(new(Q)).GetMessageName(),
		crc:   QP(new(Q)).GetCrcString(),
		reply: reflect.TypeFor[R](),
		decode: func(data []byte) (api.Message, error) {
			m := QP(new(Q))
			if err := codec.DecodeMsg(data, m); err != nil {
				return nil, err
			}
			return m, nil
		},
		apply: func(c *call) { apply(c, c.msg.(QP)) }, //nolint:errcheck // decode above made it a QP
	}
}

// write describes a request that changes VPP; R, its reply, has a Retval.
func write[Q, R any, QP requestPtr[Q], RP replyPtr[R]](apply func(*call, QP) int32) *method {
	m := read[Q, R, QP, RP](nil)
	m.write = true
	m.apply = func(c *call) {
		if c.retval = apply(c, c.msg.(QP)); !c.inst.dead { //nolint:errcheck // decode above made it a QP
			c.replyRetval(c.retval)
		}
	}
	return m
}

// methods lists what the simulator understands.
func methods() []*method {
	ms := []*method{
		read[memclnt.SockclntCreate, memclnt.SockclntCreateReply](sockclntCreate),
		read[memclnt.SockclntDelete, memclnt.SockclntDeleteReply](sockclntDelete),
		read[memclnt.ControlPing, memclnt.ControlPingReply](controlPing),
	}
	ms = append(ms, vpeMethods()...)
	ms = append(ms, interfaceMethods()...)
	ms = append(ms, routeMethods()...)
	ms = append(ms, cnatMethods()...)
	ms = append(ms, snatMethods()...)
	return ms
}

func nameCRC(m api.Message) string { return m.GetMessageName() + "_" + m.GetCrcString() }

// assignIDs gives every message an id, in another order in every instance, as
// a VPP of another version or with other plugins does. The ranges of
// successive instances do not overlap, so an id that a client kept over a
// restart is noticed ([Stats].Unknown).
func (in *instance) assignIDs(rnd *rand.Rand, hidden []string) {
	in.ids = map[string]uint16{}
	in.byID = map[uint16]*method{}
	names := map[string]*method{}
	for _, m := range methods() {
		names[m.name+"_"+m.crc] = m
		r := reflect.New(m.reply).Interface().(api.Message) //nolint:errcheck // replies are messages
		if _, ok := names[nameCRC(r)]; !ok {
			names[nameCRC(r)] = nil
		}
	}
	order := make([]string, 0, len(names))
	for n := range names {
		if !slices.ContainsFunc(hidden, func(h string) bool { return n == h || strings.HasPrefix(n, h+"_") && len(n) == len(h)+9 }) {
			order = append(order, n)
		}
	}
	slices.Sort(order)
	rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	id := in.firstID()
	for _, n := range order {
		mid := id
		if strings.HasPrefix(n, "sockclnt_create_") && !strings.HasPrefix(n, "sockclnt_create_reply_") {
			mid = createID
		} else {
			id++
		}
		in.ids[n] = mid
		if m := names[n]; m != nil {
			m.id = mid
			in.byID[mid] = m
		}
	}
}

// firstID is where the message ids of an instance begin.
func (in *instance) firstID() uint16 { return uint16(100 + in.number%250*256) }

// handle takes one request through the simulator. It returns false when the
// connection is to be given up.
func (s *Sim) handle(c *client, data []byte) bool {
	// One request at a time, in order of arrival: VPP handles the API on its
	// main thread.
	select {
	case s.turn <- struct{}{}:
	case <-c.gone:
		return false
	}
	defer func() { <-s.turn }()
	if !s.awaitResume(c) {
		return false
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if c.inst != s.inst || c.inst.dead {
		return false
	}
	if c.unregistered {
		s.crash("a message of a client whose registration another one deleted")
		return false
	}
	call, err := s.parse(c, data)
	if err != nil {
		// VPP prints a warning and goes on, without an answer.
		s.log.WithError(err).WithField("client", c.name).Warn("request dropped")
		return true
	}
	plan := s.faults.plan(call)
	if plan.delay > 0 {
		s.mu.Unlock()
		alive := wait(c, plan.delay)
		s.mu.Lock()
		if !alive || c.inst != s.inst || c.inst.dead {
			return false
		}
	}
	if plan.dieBefore {
		s.crash("killed by a fault before " + call.method.name)
		return false
	}
	if plan.cutBefore {
		c.drop()
		return false
	}
	call.quiet = plan.quiet || plan.dieAfter || plan.cutAfter
	if plan.fail != 0 {
		call.replyRetval(plan.fail)
	} else {
		call.method.apply(call)
		if call.method.write && call.retval == 0 && !c.inst.dead {
			s.applied[call.method.name]++
		}
	}
	switch {
	case c.inst.dead:
		return false
	case plan.dieAfter:
		s.crash("killed by a fault after " + call.method.name)
		return false
	case plan.cutAfter:
		c.drop()
		return false
	case call.err != nil:
		s.log.WithError(call.err).WithField("client", c.name).Warn("closing the client's connection")
		c.drop()
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.leaving
}

// parse finds the method of a request and decodes it.
func (s *Sim) parse(c *client, data []byte) (*call, error) {
	id := binary.BigEndian.Uint16(data)
	m := c.inst.byID[id]
	if m == nil {
		s.stats.Unknown++
		if id < c.inst.firstID() {
			s.stats.Stale++
		}
		return nil, fmt.Errorf("no handler for message id %d", id)
	}
	s.calls[m.name]++
	out := &call{sim: s, inst: c.inst, client: c, method: m}
	body := requestOffset
	if id == createID {
		body = replyOffset // sockclnt_create has no client index
	}
	if len(data) < body {
		s.stats.Malformed++
		return nil, fmt.Errorf("%s: truncated: %d bytes", m.name, len(data))
	}
	if id != createID {
		out.index = binary.BigEndian.Uint32(data[2:])
	}
	out.context = binary.BigEndian.Uint32(data[body-4:])
	var err error
	if m.check != nil {
		err = m.check(data[body:])
	}
	if err == nil {
		out.msg, err = m.decode(data)
	}
	if err != nil {
		s.stats.Malformed++
		return nil, fmt.Errorf("%s: truncated: %w", m.name, err)
	}
	return out, nil
}
