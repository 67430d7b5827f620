// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/json"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// maxLine is the longest line of a recording that is read; the API server itself
// takes no object larger than a few MiB.
const maxLine = 16 << 20

// wantedLine says how a recording is made, for messages.
const wantedLine = `one watch event a line, {"type":"ADDED","object":{...}}, as "record" writes them, and ` +
	`"kubectl get services -A --watch --output-watch-events -o json"`

// Replay reads recorded watches: JSON lines, each a watch event.
type Replay struct {
	// Name names the recording in messages.
	Name string
	// Selection says which objects are ours; others are deleted ones.
	Selection resolve.Selection
	// Warn is told what is passed over and may have been meant.
	Warn func(string)
}

// Recorded is one event of a recording.
type Recorded struct {
	// Line is where the event is, counted from 1.
	Line int
	// Type is the type of the watch event: ADDED, MODIFIED or DELETED.
	Type watch.EventType
	// Event is what it means.
	Event model.Event
}

// Events returns the events of r in order. For a line that cannot be used there
// is an error, which names the line, the object and the field; whoever goes on
// gets the lines behind it. Only if r itself fails is that error the last.
func (p *Replay) Events(r io.Reader) iter.Seq2[Recorded, error] {
	return func(yield func(Recorded, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		skipped := newSkips(p)
		defer skipped.sum()
		for number := 1; ; number++ {
			line, err := readLine(in)
			if errors.Is(err, io.EOF) {
				return
			}
			if errors.Is(err, errLongLine) {
				if !yield(Recorded{}, fmt.Errorf("%s:%d: %w", p.Name, number, err)) {
					return
				}
				continue
			}
			if err != nil {
				yield(Recorded{}, fmt.Errorf("%s:%d: %w", p.Name, number, err))
				return
			}
			if number == 1 {
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			rec, ok, err := p.parse(line, number, skipped)
			if err != nil {
				if !yield(Recorded{}, fmt.Errorf("%s:%d: %w", p.Name, number, err)) {
					return
				}
				continue
			}
			if ok && !yield(rec, nil) {
				return
			}
		}
	}
}

// parse reads one line. ok is false for one that means nothing here.
func (p *Replay) parse(line []byte, number int, skipped *skips) (rec Recorded, ok bool, err error) {
	var event struct {
		Type   watch.EventType    `json:"type"`
		Object stdjson.RawMessage `json:"object"`
	}
	if !stdjson.Valid(line) {
		var v any
		err := stdjson.Unmarshal(line, &v)
		return rec, false, fmt.Errorf("no valid JSON (%w): %s: wanted %s", err, brief(line), wantedLine)
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(line, &event); err != nil {
		return rec, false, fmt.Errorf("%w: wanted %s", describe(line, reflect.TypeOf(event), err), wantedLine)
	}
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		return rec, false, nil
	case watch.Error:
		var status metav1.Status
		_ = json.UnmarshalCaseSensitivePreserveInts(event.Object, &status)
		skipped.add("events of type ERROR", number, fmt.Sprintf("the recorded watch was broken off: %s", status.Message))
		return rec, false, nil
	case "":
		return rec, false, fmt.Errorf("type: missing: wanted %s", wantedLine)
	default:
		skipped.add("events of type "+brief([]byte(event.Type)), number, "wanted ADDED, MODIFIED, DELETED or BOOKMARK")
		return rec, false, nil
	}
	if len(event.Object) == 0 {
		return rec, false, fmt.Errorf("object: missing: wanted %s", wantedLine)
	}
	obj, warnings, err := decodeObject(event.Object, metav1.TypeMeta{})
	var unread unreadKind
	if errors.As(err, &unread) {
		skipped.add("objects of kind "+brief([]byte(unread.Kind)), number, unread.Error())
		return rec, false, nil
	}
	if err != nil {
		return rec, false, err
	}
	for _, w := range warnings {
		skipped.add("fields that are not known", number, w)
	}
	op := model.Upsert
	if event.Type == watch.Deleted || !p.Selection.Selects(obj) {
		op = model.Delete
	}
	return Recorded{number, event.Type, model.Event{Op: op, Object: obj, Source: SourceReplay}}, true, nil
}

// errLongLine is a line that is longer than is read.
var errLongLine = fmt.Errorf("line longer than %d MiB: wanted %s", maxLine>>20, wantedLine)

// readLine reads a line without its end. A line that is too long is read to its
// end all the same, so that the next one can be read.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && long, err == nil && long:
			return nil, errLongLine
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			return line, nil
		default:
			return nil, err
		}
	}
}

// skips tells of each class of passed-over lines once, and counts the others.
type skips struct {
	replay *Replay
	counts map[string]int
}

func newSkips(p *Replay) *skips { return &skips{p, map[string]int{}} }

func (s *skips) add(class string, line int, why string) {
	if len(s.counts) >= maxToldOnce && s.counts[class] == 0 {
		return
	}
	s.counts[class]++
	if s.counts[class] == 1 && s.replay.Warn != nil {
		s.replay.Warn(fmt.Sprintf("%s:%d: %s are passed over: %s", s.replay.Name, line, class, why))
	}
}

// sum says how many there were, of which only the first was told.
func (s *skips) sum() {
	for _, class := range slices.Sorted(maps.Keys(s.counts)) {
		if n := s.counts[class]; n > 1 && s.replay.Warn != nil {
			s.replay.Warn(fmt.Sprintf("%s: %d %s were passed over", s.replay.Name, n, class))
		}
	}
}
