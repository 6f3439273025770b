// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func program() Program {
	return Program{
		Name:        "waymark",
		Description: "a test",
		Version:     "1.2.3",
		Commit:      "abc",
		Time:        time.Unix(1795000000, 0).UTC(),
		User:        "65532:65532",
		Command:     []string{"agent", "run"},
		Directories: []string{"/etc/waymark"},
	}
}

func build(t *testing.T, arch, content string) v1.Image {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := Build(program(), arch, []File{{Source: source, Destination: "/usr/bin/waymark", Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// The archive is the same each time, and a reader of the format finds in it what was put there.
func TestArchive(t *testing.T) {
	var archives [][]byte
	for range 2 {
		name := filepath.Join(t.TempDir(), "image.tar")
		if err := Write(name, program(), map[string]v1.Image{"amd64": build(t, "amd64", "one"), "arm64": build(t, "arm64", "two")}); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same contents differ")
	}
	outer, err := layout.ImageIndexFromPath(unpacked(t, archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	for _, key := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
		if got := manifest.Manifests[0].Annotations[key]; got != "localhost/waymark:1.2.3" {
			t.Errorf("%s is %q", key, got)
		}
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, m := range manifest.Manifests {
		architectures = append(architectures, m.Platform.Architecture)
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, img, m.Platform.Architecture, map[string]string{"amd64": "one", "arm64": "two"}[m.Platform.Architecture])
	}
	if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
		t.Errorf("architectures %q", architectures)
	}
}

func checkImage(t *testing.T, img v1.Image, arch, want string) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := file.Config; file.Architecture != arch || !slices.Equal(c.Entrypoint, []string{"/usr/bin/waymark"}) || c.User != "65532:65532" ||
		c.Labels["org.opencontainers.image.revision"] != "abc" || !file.Created.Equal(program().Time) {
		t.Errorf("%+v", file)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "usr/bin/waymark" && (string(content) != want || h.Mode != 0o755) {
			t.Errorf("%q, mode %o, want %q", content, h.Mode, want)
		}
		if h.Name == "etc/waymark/" && (h.Uid != 65532 || h.Mode != 0o750) {
			t.Errorf("%+v", h)
		}
	}
	if !slices.Equal(names, []string{"etc/", "etc/waymark/", "usr/", "usr/bin/", "usr/bin/waymark"}) {
		t.Errorf("the layer has %q", names)
	}
}

func unpacked(t *testing.T, archive []byte) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What an image is called is a reference for every version that scripts/version.sh prints.
func TestReference(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3+x": "1.2.3-x", "0.1.0+20261128.abcdef123456-dirty": "0.1.0-20261128.abcdef123456-dirty", "0.1.0+unknown": "0.1.0-unknown",
	} {
		p := program()
		p.Version = version
		tag, err := name.NewTag(p.Reference()) // to which "localhost" is a part of the repository
		if err != nil || tag.RepositoryStr() != "localhost/waymark" || tag.TagStr() != want {
			t.Errorf("%s: %s, %v", version, p.Reference(), err)
		}
	}
	if _, err := name.NewTag("localhost/waymark:1.2.3+x"); err == nil {
		t.Error("the parser accepts any tag, so this test says nothing")
	}
}

func TestUserIsNumbers(t *testing.T) {
	p := program()
	p.User = "nobody"
	if _, err := Build(p, "amd64", nil); err == nil {
		t.Error("a user by name was accepted, and the image has no file of users")
	}
}
