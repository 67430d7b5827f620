// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"
	"k8s.io/apimachinery/pkg/api/equality"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// maxFileSize is the largest manifest that is read.
const maxFileSize = 64 << 20

// FilesConfig configures Files; DefaultFilesConfig fills it.
type FilesConfig struct {
	// Path is a directory, whose *.yaml, *.yml and *.json files are read, or
	// one such file.
	Path string
	// NodeName is the name of this node's Node object. That there is none is said,
	// and no more than that; empty: it is not looked for.
	NodeName string
	// Selection says which objects are ours.
	Selection resolve.Selection
	// Debounce is how long the files must have been left alone before they
	// are read; who writes all the time is interrupted after five times that.
	Debounce time.Duration
	// Poll is how often the files are read without being told of a change.
	Poll time.Duration
}

// DefaultFilesConfig returns the configuration for the manifests at path.
func DefaultFilesConfig(path string) FilesConfig {
	return FilesConfig{Path: path, Debounce: 100 * time.Millisecond, Poll: 30 * time.Second}
}

// Files sends the objects of manifests, as they are now. The rules:
//
//   - What is read is compared with what was sent; only differences are sent, in
//     one batch.
//   - A file with a document that cannot be read says what it said when it was
//     last good, and so does an empty one: it is being written. To take all
//     objects of a file away, delete the file or leave a comment in it.
//   - At the first reading there is nothing to fall back on: bad documents are
//     passed over, the others count.
//   - If two files have the same object, the file whose name sorts last wins.
type Files struct {
	cfg   FilesConfig
	sink  model.Sink
	log   *logrus.Entry
	board *board
	dir   *directory
	// sent is what the sink has.
	sent map[objectKey]object
}

// NewFiles returns a source for the manifests of cfg. The path must exist.
func NewFiles(cfg FilesConfig, sink model.Sink, log *logrus.Entry) (*Files, error) {
	if err := checkPath(cfg.Path); err != nil {
		return nil, err
	}
	if cfg.Debounce < 0 || cfg.Poll <= 0 {
		return nil, fmt.Errorf("manifests %s: debounce %s and poll %s: wanted times above zero", cfg.Path, cfg.Debounce, cfg.Poll)
	}
	b := newBoard(log, "manifests in "+cfg.Path)
	return &Files{
		cfg:   cfg,
		sink:  sink,
		log:   log,
		board: b,
		dir:   newDirectory(cfg.Path, b, log),
		sent:  map[objectKey]object{},
	}, nil
}

// checkPath reports a path that cannot be read, with the remedy.
func checkPath(path string) error {
	if path == "" {
		return fmt.Errorf("manifests: no path: give %s", wantedPath)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("manifests: %w: give %s", err, wantedPath)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("manifests %s: neither a directory nor a file: give %s", path, wantedPath)
	}
	return nil
}

const wantedPath = "a directory that has *.yaml, *.yml or *.json files, or one such file"

// Name is the Source of the events.
func (f *Files) Name() string { return SourceFiles }

// Status returns how the source stands.
func (f *Files) Status() Status { return f.board.status() }

// Serve reads the manifests, sends them, and follows changes until t is dying.
func (f *Files) Serve(t *tomb.Tomb) error {
	ctx := t.Context(context.Background())
	var events chan fsnotify.Event
	var errs chan error
	poll := f.cfg.Poll
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		poll = min(poll, time.Second)
		f.log.WithError(err).Warnf("the kernel does not tell of changed files; looking every %s (raise fs.inotify.max_user_instances)", poll)
	} else {
		defer func() { _ = watcher.Close() }()
		events, errs = watcher.Events, watcher.Errors
	}
	timer := time.NewTimer(0) // the first reading
	defer timer.Stop()
	var firstChange time.Time
	for {
		select {
		case <-t.Dying():
			return nil
		case e := <-events:
			if e.Op == fsnotify.Chmod {
				continue
			}
			now := time.Now()
			if firstChange.IsZero() {
				firstChange = now
			}
			timer.Reset(min(f.cfg.Debounce, firstChange.Add(5*f.cfg.Debounce).Sub(now)))
		case err := <-errs:
			f.log.WithError(err).Debug("changes of files may have been missed; reading all")
			timer.Reset(f.cfg.Debounce)
		case <-timer.C:
			firstChange = time.Time{}
			next := poll
			// Watch before reading: what changes from here on is told.
			if watcher != nil && !f.watch(watcher) {
				next = min(poll, time.Second)
			}
			if !f.round(ctx) {
				next = min(poll, time.Second)
			}
			timer.Reset(next)
		}
	}
}

// watch makes the watcher watch the directories that matter now. It watches
// directories, since editors and ConfigMap volumes put new files in place of old
// ones. It returns false if some cannot be watched.
func (f *Files) watch(w *fsnotify.Watcher) bool {
	wanted := f.dir.toWatch()
	for _, p := range w.WatchList() {
		if !slices.Contains(wanted, p) {
			_ = w.Remove(p) // one that is gone is no longer watched anyway
		}
	}
	ok := true
	for _, p := range wanted {
		// Adding again is harmless, and finds a directory that was put
		// in place of the one that was watched.
		if err := w.Add(p); err != nil {
			ok = false
			if !errors.Is(err, fs.ErrNotExist) {
				f.dir.tell(fmt.Sprintf("the kernel does not tell of changes in %s (%v): looking every second; raise fs.inotify.max_user_watches", p, err))
			}
		}
	}
	return ok
}

// round reads everything and sends what differs from what was sent. It returns
// false if the directory could not be read, or ctx ended.
func (f *Files) round(ctx context.Context) bool {
	f.board.count("readings")
	wanted, ok := f.dir.read()
	if !ok {
		return false
	}
	for key, obj := range wanted {
		if !f.cfg.Selection.Selects(obj) {
			delete(wanted, key)
		}
	}
	events := difference(f.sent, wanted)
	if len(events) > 0 {
		if f.sink.Send(ctx, events...) != nil {
			return false
		}
		f.log.WithField("changes", len(events)).WithField("objects", len(wanted)).Info("manifests read")
		f.sent = wanted
	}
	if f.cfg.NodeName != "" {
		f.board.setOwnNode(f.cfg.NodeName, wanted[objectKey{kind: "Node", name: f.cfg.NodeName}] != nil)
	}
	if !f.board.status().Synced {
		if f.sink.Send(ctx, model.Event{Op: model.Synced, Source: SourceFiles}) != nil {
			return false
		}
		f.board.setSynced()
	}
	return true
}

// difference returns the events that make wanted of sent, in order of key. An
// object of wanted that equals the one sent is left alone.
func difference(sent, wanted map[objectKey]object) []model.Event {
	var events []model.Event
	for key, obj := range sent {
		if wanted[key] == nil {
			events = append(events, model.Event{Op: model.Delete, Object: obj, Source: SourceFiles})
		}
	}
	for key, obj := range wanted {
		if old := sent[key]; old == nil || !equality.Semantic.DeepEqual(old, obj) {
			events = append(events, model.Event{Op: model.Upsert, Object: obj, Source: SourceFiles})
		}
	}
	slices.SortFunc(events, func(a, b model.Event) int { return keyOf(a.Object).compare(keyOf(b.Object)) })
	return events
}
