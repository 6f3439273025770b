// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

const variables = "github.com/waymark-net/waymark/internal/commandline"

// crossCompilers are Debian's C compilers for other architectures.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// compile builds a program for an architecture. Nothing of this machine gets into it: no path,
// no time, no state of the checkout besides version and commit.
func (o Options) compile(ctx context.Context, p program, arch string) error {
	tags := ""
	flags := o.stamps()
	env := []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"}
	if p.cgo {
		env = append(env, "CGO_ENABLED=1")
		if arch != runtime.GOARCH {
			if _, err := exec.LookPath(crossCompilers[arch]); err != nil {
				compiler := strings.ReplaceAll(strings.TrimSuffix(crossCompilers[arch], "-gcc"), "_", "-")
				return problem.New(
					fmt.Sprintf("%s is not installed, and %s links C", crossCompilers[arch], p.name),
					fmt.Sprintf("apt install g++-%s, or give --architectures %s", compiler, runtime.GOARCH),
				)
			}
			env = append(env, "CC="+crossCompilers[arch], "CXX="+strings.TrimSuffix(crossCompilers[arch], "gcc")+"g++")
		}
		// Names and users are looked up by Go. A build identifier of C's linker would depend on
		// temporary names.
		static := "-static "
		if slices.Contains(p.dynamic, arch) {
			static = ""
		}
		tags, flags = "netgo,osusergo", flags+` -extldflags "`+static+`-Wl,--build-id=none"`
	}
	_, err := o.run(
		ctx,
		env,
		"go",
		"build",
		"-trimpath",
		"-buildvcs=false",
		"-tags",
		tags,
		"-ldflags",
		flags,
		"-o",
		o.binary(p.name, arch),
		p.source,
	)
	return err
}

// stamps are the linker's flags that write version and commit into a program.
func (o Options) stamps() string {
	return "-s -w -X " + variables + ".version=" + o.Version + " -X " + variables + ".commit=" + o.Commit
}

// run runs a command at the root of the repository and returns its output.
func (o Options) run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = o.Root, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

// generate writes what programs say about themselves: completions and the manual. It asks the
// program of this machine's architecture, which says the same.
func (o Options) generate(ctx context.Context, p parcel, arch string) error {
	name, dir := p.program.name, o.generated(arch)
	host := o.binary(name, runtime.GOARCH)
	if _, err := os.Stat(host); err != nil {
		if err := o.compile(ctx, p.program, runtime.GOARCH); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := o.run(ctx, nil, host, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+shell), script, 0o644); err != nil {
			return err
		}
	}
	if err := o.manual(ctx, p, host, filepath.Join(dir, "man", name)); err != nil {
		return err
	}
	return o.documents(ctx, p, arch)
}

// manual writes the compressed pages of the manual.
func (o Options) manual(ctx context.Context, p parcel, host, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	epoch := "SOURCE_DATE_EPOCH=" + strconv.FormatInt(o.Time.Unix(), 10)
	if _, err := o.run(ctx, []string{epoch}, host, "man", dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("%s wrote no manual: %w", p.program.name, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := writeGzip(page+".gz", text); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// writeGzip writes a file without a name and a time in its header, as gzip -9n does.
func writeGzip(name string, content []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
