// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

var (
	linkPattern     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingPattern  = regexp.MustCompile(`^#{1,6} +(.*)$`)
	codePattern     = regexp.MustCompile("`[^`]*`")
	documentPattern = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md(#[a-z0-9-]+)?`)
)

// links checks that the files and headings that a document links to exist in the
// tree. It does not check links elsewhere, because the checks work offline.
func links(root, name string, content []byte) ([]Finding, error) {
	var findings []Finding
	err := prose(content, func(number int, line string) error {
		for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, ""), -1) {
			fault, err := linkFault(root, name, match[1])
			if err != nil {
				return err
			}
			if fault != "" {
				findings = append(findings, Finding{name, number, fault})
			}
		}
		return nil
	})
	return findings, err
}

// documents checks that the documents exist which a comment or a text in code
// names, with their headings.
func documents(root, name string, content []byte) ([]Finding, error) {
	var findings []Finding
	for index, line := range bytes.Split(content, []byte("\n")) {
		for _, target := range documentPattern.FindAllString(string(line), -1) {
			fault, err := linkFault(root, "README.md", target)
			if err != nil {
				return nil, err
			}
			if fault != "" {
				findings = append(findings, Finding{name, index + 1, fault})
			}
		}
	}
	return findings, nil
}

// linkFault is empty for a good link.
func linkFault(root, name, target string) (string, error) {
	link, err := url.Parse(target)
	if err != nil {
		return fmt.Sprintf("link %s: %v", target, err), nil
	}
	if link.Scheme != "" || link.Host != "" {
		return "", nil
	}
	file := name
	if link.Path != "" {
		file = path.Join(path.Dir(name), link.Path)
	}
	full := filepath.Join(root, filepath.FromSlash(file))
	if _, err := os.Stat(full); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("link to %s, which does not exist", file), nil
	} else if err != nil {
		return "", err
	}
	if link.Fragment == "" || !strings.HasSuffix(file, ".md") {
		return "", nil
	}
	content, err := os.ReadFile(full)
	if err != nil {
		return "", err
	}
	found := false
	err = prose(content, func(_ int, line string) error {
		heading := headingPattern.FindStringSubmatch(line)
		found = found || heading != nil && anchor(heading[1]) == link.Fragment
		return nil
	})
	if err == nil && !found {
		return fmt.Sprintf("link to heading #%s of %s, which does not exist", link.Fragment, file), nil
	}
	return "", err
}

// prose calls visit with every line outside fenced code.
func prose(content []byte, visit func(number int, line string) error) error {
	fenced := false
	for index, line := range bytes.Split(content, []byte("\n")) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("```")) {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		if err := visit(index+1, string(line)); err != nil {
			return err
		}
	}
	return nil
}

// anchor is the fragment that Git forges give a heading.
func anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	return out.String()
}
