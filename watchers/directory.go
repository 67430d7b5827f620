// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
)

// Bounds on what is said about one file, and remembered as said.
const (
	maxErrorsTold = 10
	maxToldOnce   = 1000
)

// directory is the manifests at a path: what each file says now, or said when it
// could last be read.
type directory struct {
	path  string
	board *board
	log   *logrus.Entry
	files map[string]*manifestFile
	// told are the warnings given; they are given once.
	told map[string]bool
}

type manifestFile struct {
	sum checksum
	// objects is what the file says, good whether that is a whole version of it.
	objects map[objectKey]object
	good    bool
	// documents are those of the version read last.
	documents map[checksum][]object
}

func newDirectory(path string, b *board, log *logrus.Entry) *directory {
	return &directory{path: path, board: b, log: log, files: map[string]*manifestFile{}, told: map[string]bool{}}
}

// read returns all objects, or false if it is not known which files there are.
func (d *directory) read() (map[objectKey]object, bool) {
	paths, err := d.list()
	if err != nil {
		d.board.set(d.path, problem{"unreadable", fmt.Sprintf("manifests: %v; what they said before stays", err)})
		return nil, false
	}
	d.board.clear(d.path, fmt.Sprintf("manifests in %s can be read again", d.path))
	for path := range d.files {
		if !slices.Contains(paths, path) {
			delete(d.files, path)
			d.board.clear(path, path+" is gone")
		}
	}
	all := map[objectKey]object{}
	from := map[objectKey]string{}
	for _, path := range paths {
		d.readFile(path)
		for key, obj := range d.files[path].objects {
			if other, twice := from[key]; twice {
				d.tell(fmt.Sprintf("%s is in %s and in %s; the latter counts", key, other, path))
			}
			all[key], from[key] = obj, path
		}
	}
	return all, true
}

// list returns the paths of the manifests, sorted.
func (d *directory) list() ([]string, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{d.path}, nil
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if isManifestName(e.Name()) && !e.IsDir() {
			paths = append(paths, filepath.Join(d.path, e.Name()))
		}
	}
	return paths, nil
}

// isManifestName leaves out hidden files and what editors leave lying about:
// .web.yaml.swp, web.yaml~, #web.yaml#, .#web.yaml.
func isManifestName(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// readFile brings the state of one file up to date.
func (d *directory) readFile(path string) {
	f := d.files[path]
	if f == nil {
		f = &manifestFile{good: true}
		d.files[path] = f
	}
	data, err := readBounded(path)
	if err == nil && len(bytes.TrimSpace(data)) == 0 && len(f.objects) > 0 {
		err = fmt.Errorf("%s: empty, so taken to be half written; to take its objects away, delete the file or leave a comment in it", path)
	}
	if err != nil {
		f.sum = checksum{}
		if len(f.objects) > 0 {
			d.fail(path, []error{err}, saysBefore)
		} else {
			d.fail(path, []error{err}, "it is passed over")
		}
		return
	}
	sum := sha256.Sum256(data)
	if sum == f.sum {
		return
	}
	f.sum = sum
	m := parseManifest(path, data, f.documents)
	f.documents = m.documents
	for _, w := range m.warnings {
		d.tell(w)
	}
	if m.unread > 0 {
		d.log.Debugf("%s: %d objects of kinds that are not read", path, m.unread)
	}
	objects := map[objectKey]object{}
	for _, obj := range m.objects {
		key := keyOf(obj)
		if objects[key] != nil {
			d.tell(fmt.Sprintf("%s: %s is there twice; the last one counts", path, key))
		}
		objects[key] = obj
	}
	switch {
	case len(m.errs) == 0:
		f.objects, f.good = objects, true
		d.board.clear(path, path+" is good again")
	case f.good && f.objects != nil:
		// Half written, or a slip: the last good version stays.
		d.fail(path, m.errs, saysBefore)
	default:
		// There never was a good version. What can be read counts, and
		// what could be read before stays.
		merged := maps.Clone(f.objects)
		if merged == nil {
			merged = map[objectKey]object{}
		}
		maps.Copy(merged, objects)
		f.objects, f.good = merged, false
		d.fail(path, m.errs, "the rest of the file counts")
	}
}

const saysBefore = "what the file said before stays"

// fail says what is wrong with a file, and what happens now.
func (d *directory) fail(path string, errs []error, so string) {
	text := errs[0].Error()
	if len(errs) > 1 {
		text += fmt.Sprintf("; and %d errors more", len(errs)-1)
	}
	text += "; " + so
	if d.board.set(path, problem{text, text}) {
		for _, err := range errs[1:min(len(errs), maxErrorsTold)] {
			d.board.log.Warn(err)
		}
	}
	d.board.count("bad_file")
}

// tell gives a warning that was not given before.
func (d *directory) tell(text string) {
	if d.told[text] || len(d.told) >= maxToldOnce {
		return
	}
	d.told[text] = true
	d.log.Warn(text)
}

// readBounded reads a regular file of bearable size.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s: larger than %d MiB: split it into several files", path, maxFileSize>>20)
	}
	return data, nil
}

// toWatch returns the directories in which a change can change what is read.
func (d *directory) toWatch() []string {
	var dirs []string
	add := func(path string) {
		if !slices.Contains(dirs, path) {
			dirs = append(dirs, path)
		}
	}
	info, err := os.Stat(d.path)
	isDir := err == nil && info.IsDir()
	if !isDir || isSymlink(d.path) {
		add(filepath.Dir(d.path))
	}
	if isDir {
		if real, err := filepath.EvalSymlinks(d.path); err == nil {
			add(real)
		}
	}
	paths, err := d.list()
	if err != nil {
		return dirs
	}
	// A symbolic link may be pointed elsewhere, which is told in the link's
	// own directory, or what it leads to be written.
	for _, path := range paths {
		if isSymlink(path) {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				add(filepath.Dir(real))
			}
		}
	}
	return dirs
}

func isSymlink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
