// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/problem"
)

// ManPages is a page of section 1 for each command, by file name, in the macros
// of man(7). Each page has the version and the day.
func ManPages(root *cobra.Command, version string, day time.Time) map[string][]byte {
	pages := map[string][]byte{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		pages[manName(c)+".1"] = manPage(c, version, day)
		for _, sub := range children(c) {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

// WriteMan writes the pages into a directory, which it makes.
func WriteMan(dir string, root *cobra.Command, version string, day time.Time) error {
	return write(dir, ManPages(root, version, day))
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manPage(c *cobra.Command, version string, day time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		".TH \"%s\" \"1\" \"%s\" \"%s\" \"%s\"\n",
		roff(strings.ToUpper(manName(c))),
		day.UTC().Format(time.DateOnly),
		roff("Waymark "+version),
		"Waymark manual",
	)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	b.WriteString(".SH SYNOPSIS\n" + synopsis(c) + "\n")
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range blocks(about(c)) {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if p.literal {
			manLiteral(&b, p.lines)
			continue
		}
		for _, l := range p.lines {
			b.WriteString(roffLine(l) + "\n")
		}
	}
	if subs := children(c); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(sub.CommandPath()), roffLine(sub.Short))
		}
	}
	manOptions(&b, "OPTIONS", options(c.LocalNonPersistentFlags()))
	manOptions(&b, "OPTIONS OF EVERY COMMAND", append(options(c.Root().PersistentFlags()), option{name: "-h, --help", usage: "print help"}))
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		manLiteral(&b, examples(c))
	}
	if also := related(c); len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, name := range also {
			comma := ","
			if i == len(also)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), comma)
		}
	}
	return []byte(b.String())
}

// related are the pages of the commands above and below.
func related(c *cobra.Command) []string {
	var names []string
	if c.HasParent() {
		names = append(names, manName(c.Parent()))
	}
	for _, sub := range children(c) {
		names = append(names, manName(sub))
	}
	return names
}

// synopsis is the command in bold and what follows it.
func synopsis(c *cobra.Command) string {
	if len(children(c)) > 0 {
		return fmt.Sprintf(".B %s\n%s", roff(c.CommandPath()), placeholders(roffLine("[COMMAND] [OPTION...]")))
	}
	_, rest, _ := strings.Cut(c.Use, " ")
	return fmt.Sprintf(".B %s\n%s", roff(c.CommandPath()), placeholders(roffLine(strings.TrimSpace(rest+" [OPTION...]"))))
}

func manOptions(b *strings.Builder, heading string, list []option) {
	if len(list) == 0 {
		return
	}
	b.WriteString(".SH " + heading + "\n")
	for _, o := range list {
		name := `\fB` + strings.ReplaceAll(roff(o.name), ", ", `\fR, \fB`) + `\fR`
		if o.value != "" {
			name += ` \fI` + roff(o.value) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roffLine(o.usage))
	}
}

// manLiteral shows lines as they are, indented and not filled.
func manLiteral(b *strings.Builder, lines []string) {
	b.WriteString(".RS 2\n.nf\n")
	for _, l := range lines {
		b.WriteString(roffLine(l) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
}

// words in capitals stand for something else.
var placeholder = regexp.MustCompile(`\b[A-Z][A-Z0-9]+\b`)

func placeholders(roffed string) string { return placeholder.ReplaceAllString(roffed, `\fI$0\fR`) }

// roff writes text so that every device shows the same characters, those that
// can be copied to a shell among them.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// roffLine is a line of text, which must not be read as a macro.
func roffLine(line string) string {
	if out := roff(line); !strings.HasPrefix(out, ".") {
		return out
	}
	return `\&` + roff(line)
}

// write writes files into a directory, which it makes.
func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return problem.Wrap(err, "name a directory that can be written")
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return problem.Wrap(err, "name a directory that can be written")
		}
	}
	return nil
}
