// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	unknown  = "NOASSERTION"
	document = "DOCUMENT"
)

// writeSBOM writes what a program is made of, or its image, as a document of SPDX 2.3. Its namespace has the
// program's digest and what it or its image contains: another program, another document.
func (o Options) writeSBOM(p parcel, arch, file string, contained []component) error {
	name := p.program.name
	sum, err := digest(o.binary(name, arch))
	if err != nil {
		return err
	}
	program := &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: packageID(name), PackageVersion: o.Version,
		PackageFileName: "/usr/bin/" + name, PackageDownloadLocation: homepage, PackageLicenseConcluded: "Apache-2.0",
		PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText:   unknown, PrimaryPackagePurpose: "APPLICATION",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
	}
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: document,
		DocumentName:      fmt.Sprintf("%s-%s-%s", name, o.Version, arch),
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s-%s-%x", homepage, name, arch, sum, crc32.ChecksumIEEE(locators(contained))),
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "waymark-package"}},
			Created:  o.Time.UTC().Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{program},
		Relationships: []*v2_3.Relationship{relationship(document, common.TypeRelationshipDescribe, packageID(name))},
	}
	for _, c := range contained {
		license := c.license
		if license == "" {
			license = unknown
		}
		doc.Packages = append(doc.Packages, &v2_3.Package{
			PackageName: c.name, PackageSPDXIdentifier: packageID(c.id), PackageVersion: c.version,
			PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: license, PackageCopyrightText: unknown,
			PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: c.locator}},
		})
		doc.Relationships = append(doc.Relationships, relationship(packageID(name), common.TypeRelationshipContains, packageID(c.id)))
	}
	var b bytes.Buffer
	if err := json.Write(doc, &b, json.Indent("  ")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.generated(arch), file), b.Bytes(), 0o644)
}

// locators are the package URLs of components.
func locators(list []component) (all []byte) {
	for _, c := range list {
		all = append(append(all, c.locator...), '\n')
	}
	return all
}

func packageID(name string) common.ElementID {
	return common.ElementID("Package-" + strings.Map(spdxLetter, name))
}

// relationship is one between two elements of the same document.
func relationship(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to)),
	}
}

// spdxLetter is what an identifier of SPDX may have in place of a letter.
func spdxLetter(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
		return r
	}
	return '-'
}
