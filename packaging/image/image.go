// SPDX-License-Identifier: Apache-2.0

// Package image writes images of programs in the format of OCI, from nothing: a program, its
// licences, libraries only if it loads some, and no shell, no package manager. The same contents give the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Program is what an image is of.
type Program struct {
	Name        string
	Description string
	Version     string
	Commit      string
	Time        time.Time // of everything in the image
	User        string    // numbers, as there is no file of users
	Command     []string  // what it runs without arguments
	Directories []string  // that it needs, with the user as their owner
}

// File is one file of an image.
type File struct {
	Source, Destination string
	Mode                fs.FileMode
}

// Build makes the image of a program for one architecture.
func Build(p Program, arch string, files []File) (v1.Image, error) {
	content, err := layer(p, files)
	if err != nil {
		return nil, err
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: one,
		History: v1.History{Created: v1.Time{Time: p.Time}, CreatedBy: "waymark-package"}}); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created = arch, "linux", v1.Time{Time: p.Time}
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/" + p.Name}, Cmd: p.Command, User: p.User, WorkingDir: "/",
		Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": p.Name, "org.opencontainers.image.description": p.Description, "org.opencontainers.image.version": p.Version,
			"org.opencontainers.image.revision": p.Commit, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/waymark-net/waymark",
		},
	}
	return mutate.ConfigFile(img, file)
}

// layer is the only layer of an image.
func layer(p Program, files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var uid, gid int
	if _, err := fmt.Sscanf(p.User, "%d:%d", &uid, &gid); err != nil {
		return nil, fmt.Errorf("user %q: want numbers, as in 0:0: %w", p.User, err)
	}
	header := tar.Header{ModTime: p.Time, Format: tar.FormatUSTAR}
	made := map[string]bool{".": true}
	directory := func(name string, mode int64, uid, gid int) error {
		h := header
		h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid = tar.TypeDir, name+"/", mode, uid, gid
		made[name] = true
		return w.WriteHeader(&h)
	}
	parents := func(name string) error {
		var missing []string
		for dir := path.Dir(name); !made[dir]; dir = path.Dir(dir) {
			missing = append(missing, dir)
		}
		slices.Reverse(missing)
		for _, dir := range missing {
			if err := directory(dir, 0o755, 0, 0); err != nil {
				return err
			}
		}
		return nil
	}
	for _, dir := range slices.Sorted(slices.Values(p.Directories)) {
		name := strings.TrimPrefix(dir, "/")
		if err := parents(name); err != nil {
			return nil, err
		}
		if err := directory(name, 0o750, uid, gid); err != nil {
			return nil, err
		}
	}
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Destination, b.Destination) }) {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, err
		}
		h := header
		h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, strings.TrimPrefix(f.Destination, "/"), int64(f.Mode.Perm()), int64(len(content))
		if err := parents(h.Name); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // which writes the end into b
		return nil, err
	}
	return b.Bytes(), nil
}

// Reference is the name that an image of the program has where its archive is loaded. A version with
// build metadata, as in 0.1.0+20261128.abc, has a "+", which no tag may have: it becomes a "-".
func (p Program) Reference() string {
	return "localhost/" + p.Name + ":" + strings.ReplaceAll(p.Version, "+", "-")
}

// Write writes the images of a program, by architecture, as one archive in the layout of OCI, for
// podman load and skopeo copy oci-archive:FILE.
func Write(archive string, p Program, images map[string]v1.Image) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		img := images[arch]
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	dir, err := os.MkdirTemp("", "waymark-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{"org.opencontainers.image.ref.name": p.Reference(), "io.containerd.image.name": p.Reference()}
	if err := to.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	return pack(archive, dir, p.Time)
}

// pack writes a directory as a tar archive, in the order of names.
func pack(archive, dir string, at time.Time) (err error) {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: relative, Mode: 0o644, Size: int64(len(content)), ModTime: at,
			Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
