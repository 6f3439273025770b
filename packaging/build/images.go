// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waymark-net/waymark/packaging/image"
)

// container is how a program runs in a container.
type container struct {
	user        string // numbers
	command     []string
	directories []string
}

// writeImage writes the image of a program as one archive for all architectures that are built, but
// those where it needs libraries, and returns its name.
func (o Options) writeImage(p parcel) (string, error) {
	name := p.program.name
	described := image.Program{
		Name: name, Description: p.summary, Version: o.Version, Commit: o.Commit, Time: o.Time,
		User: p.container.user, Command: p.container.command, Directories: p.container.directories,
	}
	images := map[string]v1.Image{}
	for _, arch := range o.Architectures {
		if slices.Contains(p.program.dynamic, arch) {
			continue // the image has no libraries
		}
		doc := path.Join("/usr/share/doc", name)
		files := []image.File{{Source: o.binary(name, arch), Destination: path.Join("/usr/bin", name), Mode: 0o755}}
		for source, to := range map[string]string{"copyright": "copyright", name + ".licenses.gz": "third-party-licenses.gz", name +
			".spdx.json": name + ".spdx.json"} {
			files = append(files, image.File{Source: filepath.Join(o.generated(arch), source), Destination: path.Join(doc, to), Mode: 0o644})
		}
		img, err := image.Build(described, arch, files)
		if err != nil {
			return "", err
		}
		images[arch] = img
	}
	file := fmt.Sprintf("%s-%s.oci.tar", name, o.fileVersion())
	return file, image.Write(filepath.Join(o.Output, file), described, images)
}
