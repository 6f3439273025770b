// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// writeTarball writes the files of a package as they are to be below /usr/local:
// tar -C /usr/local --strip-components=1 -xzf FILE. Files of the system, such as the
// configuration, are below share/NAME.
func (o Options) writeTarball(p parcel, arch, _ string) (string, error) {
	list, err := o.files(p, arch, "deb")
	if err != nil {
		return "", err
	}
	top := fmt.Sprintf("%s-%s-linux-%s", p.program.name, o.fileVersion(), arch)
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	archive := tar.NewWriter(zipped)
	entries := map[string]file{}
	for _, f := range list {
		if to := tarballPath(f, p.program.name); to != "" {
			entries[to] = f
		}
	}
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := entries[name]
		content, err := os.ReadFile(f.source)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(name, "lib/systemd/") {
			content = bytes.ReplaceAll(content, []byte("/usr/bin/"), []byte("/usr/local/bin/"))
		}
		header := &tar.Header{
			Name: path.Join(
				top,
				name,
			), Mode: int64(f.mode.Perm()), Size: int64(len(content)), ModTime: o.Time, Format: tar.FormatUSTAR, Uname: "root", Gname: "root",
		}
		if err := archive.WriteHeader(header); err != nil {
			return "", err
		}
		if _, err := archive.Write(content); err != nil {
			return "", err
		}
	}
	if err := archive.Close(); err != nil {
		return "", err
	}
	if err := zipped.Close(); err != nil {
		return "", err
	}
	name := top + ".tar.gz"
	return name, os.WriteFile(filepath.Join(o.Output, name), b.Bytes(), 0o644)
}

// tarballPath is where a file of a package is in the tarball, "" where it is not.
func tarballPath(f file, name string) string {
	to := f.destination
	switch {
	case f.source == "", f.only == "deb" && strings.Contains(to, "/lintian/"), strings.HasSuffix(to, "changelog.Debian.gz"):
		return ""
	case strings.HasPrefix(to, "/usr/share/zsh/vendor-completions/"):
		return path.Join("share/zsh/site-functions", path.Base(to))
	case strings.HasPrefix(to, "/usr/"):
		return strings.TrimPrefix(to, "/usr/")
	default: // /etc
		return path.Join("share", name, to)
	}
}
