// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the lists of contents anew")

// fake has what a build generates, with other contents: compiling takes too long here.
func fake(t *testing.T, mtime time.Time) Options {
	t.Helper()
	o := Options{
		Root: "../..", Output: t.TempDir(), Work: t.TempDir(), Version: "1.2.3+20261128.abcdef-dirty", Time: time.Unix(1795000000, 0).UTC(),
		Architectures: []string{"amd64"}, Kinds: Kinds, Log: io.Discard,
	}
	for _, p := range parcels() {
		names := []string{"bin/" + p.program.name, "man/" + p.program.name + "/" + p.program.name + ".1.gz"}
		if p.program.name == "waymark" { // as of "waymark lab"
			names = append(names, "man/waymark/waymark-lab.1.gz", "man/waymark/waymark-status.1.gz")
		}
		for _, f := range p.shared() {
			names = append(names, f.source)
		}
		for _, name := range names {
			name = filepath.Join(o.generated("amd64"), name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("content of "+filepath.Base(name)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, mtime, mtime); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// write writes all packages of all kinds.
func (o Options) write(t *testing.T) map[string][]byte {
	t.Helper()
	written := map[string][]byte{}
	for _, p := range parcels() {
		if p.container != nil {
			name, err := o.writeImage(t.Context(), p)
			if err != nil {
				t.Fatalf("image of %s: %v", p.program.name, err)
			}
			if written[name], err = os.ReadFile(filepath.Join(o.Output, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range Kinds[:3] {
			write := o.writePackage
			if kind == "tar" {
				write = o.writeTarball
			}
			name, err := write(p, "amd64", kind)
			if err != nil {
				t.Fatalf("%s, %s: %v", p.program.name, kind, err)
			}
			if written[name], err = os.ReadFile(filepath.Join(o.Output, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return written
}

// The same contents give the same bytes, whatever the times and modes of files in this checkout.
func TestReproducible(t *testing.T) {
	first, second := fake(t, time.Unix(1000000000, 0)).write(t), fake(t, time.Now()).write(t)
	if len(first) != len(parcels())*3+2 { // and two images
		t.Errorf("%d packages were written", len(first))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

// No file is in two packages: they could not be installed together.
func TestPackagesDoNotOverlap(t *testing.T) {
	o := fake(t, time.Now())
	for _, kind := range []string{"deb", "rpm"} {
		owner := map[string]string{}
		for _, p := range parcels() {
			list, err := o.files(p, "amd64", kind)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range list {
				if other := owner[f.destination]; other != "" {
					t.Errorf("%s is in the %s of %s and of %s", f.destination, kind, other, p.program.name)
				}
				owner[f.destination] = p.program.name
			}
		}
	}
}

// The lists of what packages contain are in testdata: a change of one is a change for who has the
// package installed.
func TestContents(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed: this is no Debian system")
	}
	o := fake(t, time.Now())
	o.write(t)
	for _, p := range parcels() {
		name := p.program.name
		archives, err := filepath.Glob(filepath.Join(o.Output, name+"_*.deb"))
		if err != nil || len(archives) != 1 {
			t.Fatalf("%s: %q, %v", name, archives, err)
		}
		list, err := exec.Command("dpkg-deb", "--contents", archives[0]).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for line := range strings.Lines(string(list)) {
			if f := strings.Fields(line); !strings.HasSuffix(f[len(f)-1], "/") || strings.HasPrefix(f[len(f)-1], "./etc") {
				got.WriteString(f[0] + " " + f[1] + " " + f[len(f)-1][1:] + "\n")
			}
		}
		for _, part := range []string{"control", "conffiles"} {
			text, err := exec.Command("dpkg-deb", "--info", archives[0], part).Output()
			if err != nil && part == "control" {
				t.Fatal(err)
			}
			got.WriteString("\n" + part + ":\n" + string(text))
		}
		compare(t, filepath.Join("testdata", name+".deb.txt"), regexp.MustCompile(`Installed-Size: .*\n`).ReplaceAllString(got.String(), ""))
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: run 'go test ./packaging/build -update' and look at the difference; the package has\n%s", golden, got)
	}
}

// An .rpm recommends packages by the names that they have where RPM is.
func TestNamesOfRecommended(t *testing.T) {
	for _, p := range parcels() {
		info, err := fake(t, time.Now()).info(p, "amd64", "rpm")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range info.Recommends {
			if !slices.Contains([]string{"ethtool", "iproute", "iputils", "waymark"}, name) {
				t.Errorf("the rpm of %s recommends %s, which Fedora and RHEL do not have", p.program.name, name)
			}
		}
	}
}

// An .rpm lists each directory that is the package's alone, or its removal would leave it.
func TestDirectoriesOfRPM(t *testing.T) {
	o := fake(t, time.Now())
	for _, p := range parcels() {
		info, err := o.info(p, "amd64", "rpm")
		if err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for _, c := range info.Contents {
			times[c.Destination]++
		}
		for _, c := range info.Contents {
			for d := filepath.Dir(c.Destination); d != "/"; d = filepath.Dir(d) {
				if own := filepath.Base(d) == p.program.name; own && times[d] != 1 {
					t.Errorf("the rpm of %s lists %s %d times", p.program.name, d, times[d])
				}
			}
		}
		if doc := "/usr/share/doc/waymark/examples"; p.program.name == "waymark" && times[doc] != 1 {
			t.Errorf("the rpm lists %s %d times", doc, times[doc])
		}
	}
}

// A shell understands each script.
func TestScripts(t *testing.T) {
	o := fake(t, time.Now())
	o.write(t)
	scripts, err := filepath.Glob(filepath.Join(o.generated("amd64"), "scripts", "*", "*"))
	if err != nil || len(scripts) != 2*2*3 {
		t.Fatalf("%d scripts: %q, %v", len(scripts), scripts, err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// Each file that a script names is in its package: systemd-tmpfiles, -sysusers and -sysctl find theirs by name,
// and units and programs are installed by the package.
func TestScriptsNameWhatIsThere(t *testing.T) {
	o := fake(t, time.Now())
	o.write(t)
	places := map[string]string{"systemd-tmpfiles": "/usr/lib/tmpfiles.d/", "systemd-sysusers": "/usr/lib/sysusers.d/"}
	conf := regexp.MustCompile(`(systemd-(?:tmpfiles|sysusers))(?: --\S+)* (\S+\.conf)`)
	unit := regexp.MustCompile(`\S+\.(?:service|mount|socket|timer)\b`)
	tried := 0
	for _, p := range parcels() {
		for _, kind := range []string{"deb", "rpm"} {
			list, err := o.files(p, "amd64", kind)
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, f := range list {
				there[f.destination] = true
			}
			scripts, err := filepath.Glob(filepath.Join(o.generated("amd64"), "scripts", p.program.name+"."+kind, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, script := range scripts {
				text, err := os.ReadFile(script)
				if err != nil {
					t.Fatal(err)
				}
				var named []string
				for _, m := range conf.FindAllStringSubmatch(string(text), -1) {
					named = append(named, places[m[1]]+m[2])
				}
				for _, name := range unit.FindAllString(string(text), -1) {
					named = append(named, "/usr/lib/systemd/system/"+name)
				}
				for _, name := range named {
					if tried++; !there[name] {
						t.Errorf("%s names %s, which the package does not have", script, name)
					}
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d names were found in the scripts", tried)
	}
}

// The scripts make the group of readers: by its entry for systemd-sysusers, or without systemd; and with neither, the
// installation goes on.
func TestGroupOfReaders(t *testing.T) {
	var p parcel
	for _, p = range parcels() {
		if p.group != "" {
			break
		}
	}
	for _, c := range []struct{ tools, want string }{
		{"systemd-sysusers groupadd", "systemd-sysusers waymark.conf\n"},
		{"getent-fails groupadd", "groupadd --system waymark-read\n"},
		{"getent groupadd", ""},
		{"", ""},
	} {
		directory := t.TempDir()
		log := filepath.Join(directory, "log")
		for tool := range strings.FieldsSeq(c.tools) {
			text := "#!/bin/sh\necho " + tool + " \"$@\" >> " + log + "\nexit 1\n" // their failure does not end the script
			if strings.HasPrefix(tool, "getent") {
				text = "#!/bin/sh\nexit " + map[bool]string{true: "2", false: "0"}[tool == "getent-fails"] + "\n"
			}
			if err := os.WriteFile(filepath.Join(directory, strings.TrimSuffix(tool, "-fails")), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		shell := exec.Command("/bin/sh", "-e", "-c", p.makeGroup())
		shell.Env = []string{"PATH=" + directory}
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("with %q: %v\n%s", c.tools, err, out)
		}
		if got, _ := os.ReadFile(log); string(got) != c.want {
			t.Errorf("with %q: %q, want %q", c.tools, got, c.want)
		}
	}
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		t.Skip("systemd-sysusers is not installed, so the entry is not tried")
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	entry, err := filepath.Abs("../sysusers/waymark.conf")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-sysusers", "--root="+root, entry).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(root, "etc/group")); err != nil || !regexp.MustCompile("(?m)^"+p.group+":").Match(text) {
		t.Errorf("%v: %s", err, text)
	}
}

// The installation raises the limit of sockets' buffers as the next start of the machine does: by the operator's files,
// and it lowers none.
func TestBufferLimit(t *testing.T) {
	if _, err := os.Stat("/usr/lib/systemd/systemd-sysctl"); err != nil || os.Geteuid() != 0 {
		t.Skip("systemd-sysctl is not installed, or this is not root, who alone may have other files in its place")
	}
	for _, c := range []struct{ own, now, want string }{
		{"", "212992", "33554432"},
		{"net.core.rmem_max = 268435456", "212992", "268435456"},
		{"net.core.rmem_max = 268435456", "268435456", "268435456"},
		{"", "268435456", "268435456"},
		{"net.core.rmem_max = 1048576", "212992", "1048576"},
	} {
		directory := t.TempDir()
		for name, text := range map[string]string{"etc/99-own.conf": c.own, "limit": c.now} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(directory, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(directory, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		sysctl, err := filepath.Abs("../sysctl/waymark-collector.conf")
		if err != nil {
			t.Fatal(err)
		}
		script := "mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/sysctl.d\n" +
			"cp " + sysctl + " /run/sysctl.d/10-waymark-collector.conf\n" +
			"mount --bind " + directory + "/etc /etc/sysctl.d && mount --bind " + directory + "/limit /proc/sys/net/core/rmem_max\n" +
			collectorPackage().install
		if out, err := exec.Command("unshare", "--mount", "/bin/sh", "-e", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, err := os.ReadFile(filepath.Join(directory, "limit")); err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%q and %s: %s, %v, want %s", c.own, c.now, got, err, c.want)
		}
	}
}

// The programs get the version and the commit, each in its place.
func TestStamps(t *testing.T) {
	got := Options{Version: "1.2.3", Commit: "abcdef"}.stamps()
	if want := "-s -w -X " + variables + ".version=1.2.3 -X " + variables + ".commit=abcdef"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A program that links C needs the other architecture's compiler, and the error says which.
func TestCrossCompilerIsNamed(t *testing.T) {
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	t.Setenv("PATH", t.TempDir())
	err := fake(t, time.Now()).compile(t.Context(), program{name: "waymark", source: "./cmd/waymark", cgo: true}, other)
	if err == nil || !strings.Contains(err.Error(), "apt install g++-") || !strings.Contains(err.Error(), "--architectures "+runtime.GOARCH) {
		t.Errorf("%v", err)
	}
}
