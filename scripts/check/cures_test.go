// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestWrappedCures(t *testing.T) {
	const head = "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n\n"
	const want = "a.go:5: a text after an error: give the error a cure with problem.Wrap"
	for _, test := range []struct{ name, file, content, want string }{
		{"a cure", "a.go", "var err = fmt.Errorf(\"listen: %w; run as root\", x)\n", want},
		{"raw, joined", "a.go", "var err = fmt.Errorf(`listen: %w; run`+\" as root\", x)\n", want},
		{"of another function", "a.go", "var err = Usagef(\"%w; see --help\", x)\n", want},
		{"an error at the end", "a.go", "var err = fmt.Errorf(\"stopped; listen: %w\", x)\n", ""},
		{"a comment", "a.go", "// %w; is refused\nvar a = 1\n", ""},
		{"a test", "a_test.go", "var err = fmt.Errorf(\"listen: %w; run as root\", x)\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) { onlyFinding(t, test.file, head+test.content, test.want) })
	}
}

// A cure in the text of an error is refused; two facts may be joined.
func TestPlainCures(t *testing.T) {
	const head = "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n\n"
	const want = "a.go:5: a cure in the text of an error, after \"; run\": give it to problem.New or problem.Wrap"
	for _, test := range []struct{ name, file, content, want string }{
		{"a cure", "a.go", "var err = errors.New(\"only root may; run it as root\")\n", want},
		{"in a format", "a.go", "var err = fmt.Errorf(\"%s is gone; run: make %s\", x, y)\n", want},
		{"of wrong usage", "a.go", "var err = commandline.Usagef(\"no file; run: make\")\n", want},
		{"raw, joined", "a.go", "var err = fmt.Errorf(`no file; `+(\"ru\"+\"n \")+y)\n", want},
		{"two facts", "a.go", "var err = errors.New(\"a block is too short; the file is damaged\")\n", ""},
		{"a fact with a word that begins like a cure", "a.go", "var err = errors.New(\"it is down; users wait\")\n", ""},
		{"no error", "a.go", "var text = fmt.Sprintf(\"only root may; run it as root\")\n", ""},
		{"a problem", "a.go", "var err = problem.New(\"only root may\", \"log in; run it as root\")\n", ""},
		{"a public package", "ipfix/a.go", "var err = errors.New(\"too long; use a shorter one\")\n", ""},
		{"a test", "a_test.go", "var err = errors.New(\"only root may; run it as root\")\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) { onlyFinding(t, test.file, head+test.content, test.want) })
	}
}
