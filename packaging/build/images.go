// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
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

// writeImage writes the image of a program as one archive for all architectures that are built, and returns its name.
func (o Options) writeImage(ctx context.Context, p parcel) (string, error) {
	described := image.Program{
		Name: p.program.name, Description: p.summary, Version: o.Version, Commit: o.Commit, Time: o.Time,
		User: p.container.user, Command: p.container.command, Directories: p.container.directories,
	}
	images := map[string]v1.Image{}
	for _, arch := range o.Architectures {
		files, err := o.imageFiles(ctx, p, arch)
		if err != nil {
			return "", err
		}
		if images[arch], err = image.Build(described, arch, files); err != nil {
			return "", err
		}
	}
	file := fmt.Sprintf("%s-%s.oci.tar", p.program.name, o.fileVersion())
	return file, image.Write(filepath.Join(o.Output, file), described, images)
}

// imageFiles are a program, its documents, and the libraries that it loads where it is not static.
func (o Options) imageFiles(ctx context.Context, p parcel, arch string) (files []image.File, err error) {
	name := p.program.name
	licences, sbom := name+".licenses.gz", name+".spdx.json"
	if slices.Contains(p.program.dynamic, arch) {
		if files, licences, sbom, err = o.withLibraries(ctx, p, arch); err != nil {
			return nil, err
		}
	}
	doc := path.Join("/usr/share/doc", name)
	for source, to := range map[string]string{"copyright": "copyright", licences: "third-party-licenses.gz", sbom: name + ".spdx.json"} {
		files = append(files, image.File{Source: filepath.Join(o.generated(arch), source), Destination: path.Join(doc, to), Mode: 0o644})
	}
	return append(files, image.File{Source: o.binary(name, arch), Destination: path.Join("/usr/bin", name), Mode: 0o755}), nil
}
