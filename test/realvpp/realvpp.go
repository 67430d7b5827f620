// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package realvpp starts a real VPP for the tests that can use one: the binary
// in VPP_BIN, or vpp on PATH. Without one a test is skipped, in one line; with
// VPP_REQUIRED set it fails.
package realvpp

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// VPP is a running VPP.
type VPP struct {
	// Socket is its API socket, CLI that of vppctl.
	Socket, CLI string
	// Died is closed when it has ended.
	Died <-chan struct{}

	bin, conf, log string
	stop           func()
}

// Find returns the VPP to test with, or skips the test.
func Find(t testing.TB) string {
	t.Helper()
	name := os.Getenv("VPP_BIN")
	if name == "" {
		name = "vpp"
	}
	bin, err := exec.LookPath(name)
	if err == nil {
		bin, err = filepath.EvalSymlinks(bin)
	}
	switch {
	case err == nil:
		return bin
	case os.Getenv("VPP_REQUIRED") != "":
		t.Fatalf("no VPP to test with: %v", err)
	}
	t.Skip("no real VPP: put vpp on PATH or into VPP_BIN")
	return ""
}

// Start runs a VPP until the test ends. extra is added to its startup.conf.
func Start(t testing.TB, extra string) *VPP {
	t.Helper()
	bin := Find(t)
	plugins, err := filepath.Glob(filepath.Join(filepath.Dir(bin), "..", "lib", "*", "vpp_plugins"))
	if err != nil || len(plugins) == 0 {
		t.Fatalf("no plugins beside %s: %v", bin, err)
	}
	dir, err := os.MkdirTemp("", "vpp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	v := &VPP{Socket: filepath.Join(dir, "api.sock"), CLI: filepath.Join(dir, "cli.sock"), bin: bin}
	startup := fmt.Sprintf(`unix { nodaemon cli-listen %[1]s/cli.sock runtime-dir %[1]s }
socksvr { socket-name %[1]s/api.sock }
api-segment { prefix %[2]s }
buffers { page-size default buffers-per-numa 4096 }
memory { main-heap-page-size default main-heap-size 512M }
statseg { socket-name %[1]s/stats.sock size 32M }
plugins { path %[3]s plugin default { disable } plugin cnat_plugin.so { enable } plugin af_packet_plugin.so { enable } plugin ping_plugin.so { enable } }
%[4]s
`, dir, filepath.Base(dir), plugins[0], extra)
	conf := filepath.Join(dir, "startup.conf")
	if err := os.WriteFile(conf, []byte(startup), 0o600); err != nil {
		t.Fatal(err)
	}
	v.conf, v.log = conf, filepath.Join(dir, "log")
	v.up(t)
	return v
}

// Restart kills VPP and starts another one in its place.
func (v *VPP) Restart(t testing.TB) {
	t.Helper()
	v.stop()
	v.up(t)
}

// up starts the process and waits until its API answers.
func (v *VPP) up(t testing.TB) {
	t.Helper()
	log, err := os.Create(v.log)
	if err != nil {
		t.Fatal(err)
	}
	v.run(t, v.conf, log)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("unix", v.Socket); err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s does not come up:\n%s", v.bin, text)
		}
	}
}

// run starts the process. It dies with the test, also when that is killed: the
// signal comes when the thread that started it ends, so that thread stays.
func (v *VPP) run(t testing.TB, conf string, log *os.File) {
	t.Helper()
	cmd := exec.Command(v.bin, "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, gone, killed := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(gone)
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended := cmd.Wait() // killed, or
			select {
			case <-killed:
			default:
				text, _ := os.ReadFile(log.Name())
				t.Logf("VPP ended by itself: %v\n%s", ended, text) // some tests want that
			}
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	v.Died = gone
	stop := sync.OnceFunc(func() {
		close(killed)
		cmd.Process.Kill()
		<-gone
		// What VPP cannot remove when it is killed.
		left, _ := filepath.Glob("/dev/shm/" + filepath.Base(filepath.Dir(conf)) + "-*")
		for _, f := range left {
			os.Remove(f)
		}
	})
	v.stop = stop
	t.Cleanup(stop)
}

// Ctl runs a CLI command and returns what VPP prints.
func (v *VPP) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	ctl := filepath.Join(filepath.Dir(v.bin), "vppctl")
	out, err := exec.Command(ctl, append([]string{"-s", v.CLI}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("vppctl %v: %v\n%s", args, err, out)
	}
	return string(out)
}
