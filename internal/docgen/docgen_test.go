// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// tree is a small command tree with everything that a page may show.
func tree() *cobra.Command {
	run := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "way", Short: "Show the paths", Long: "Way shows it.\n\nSecond paragraph.", RunE: run}
	root.PersistentFlags().Bool("json", false, "print JSON")
	route := &cobra.Command{Use: "route [show | add PREFIX … dev IF]", Short: "Change the node's routes", RunE: run,
		Long:    "Change routes, 'as ip':\n\n  route add PREFIX\n        [name NAME]\n\n  NAME := \\text\n\n.hidden is no macro.",
		Example: "  way route show\n  way route add \"2001:db8::/64\" \\\n      dev eth0"}
	route.Flags().StringP("config", "c", "", "the `FILE` to read")
	route.Flags().Duration("wait", time.Second, "`TIME` to wait")
	root.AddCommand(route, &cobra.Command{Use: "secret", Short: "Not shown", Hidden: true, RunE: run})
	return root
}

func TestBlocks(t *testing.T) {
	got := blocks(tree().Commands()[0].Long)
	want := []block{
		{false, []string{"Change routes, 'as ip':"}},
		{true, []string{"route add PREFIX", "      [name NAME]", "", "NAME := \\text"}},
		{false, []string{".hidden is no macro."}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(block{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManPage(t *testing.T) {
	pages := ManPages(tree(), "1.2", time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC))
	want := `.TH "WAY\-ROUTE" "1" "2026-11-21" "Waymark 1.2" "Waymark manual"
.SH NAME
way\-route \- Change the node\(aqs routes
.SH SYNOPSIS
.B way route
[show | add \fIPREFIX\fR \[u2026] dev \fIIF\fR] [\fIOPTION\fR...]
.SH DESCRIPTION
Change routes, \(aqas ip\(aq:
.PP
.RS 2
.nf
route add PREFIX
      [name NAME]

NAME := \etext
.fi
.RE
.PP
\&.hidden is no macro.
.SH OPTIONS
.TP
\fB\-c\fR, \fB\-\-config\fR \fIFILE\fR
the FILE to read
.TP
\fB\-\-wait\fR \fITIME\fR
TIME to wait (default: 1s)
.SH OPTIONS OF EVERY COMMAND
.TP
\fB\-\-json\fR
print JSON
.TP
\fB\-h\fR, \fB\-\-help\fR
print help
.SH EXAMPLES
.RS 2
.nf
way route show
way route add \(dq2001:db8::/64\(dq \e
    dev eth0
.fi
.RE
.SH SEE ALSO
.BR way (1)
`
	if diff := cmp.Diff(want, string(pages["way-route.1"])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(pages) != 2 || !strings.Contains(string(pages["way.1"]), ".SH COMMANDS\n.TP\n.B way route\nChange the node\\(aqs routes.\n") ||
		!strings.Contains(string(pages["way.1"]), ".BR way\\-route (1)\n") {
		t.Errorf("%d pages; the first is\n%s", len(pages), pages["way.1"])
	}
}

// Pages have only macros and escapes that every formatter knows.
func TestManPagesAreClean(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|PP|TP|RS|RE|nf|fi|B|BR)( |$)`)
	escape := regexp.MustCompile(`\\(e|-|&|\(aq|\(ga|\(ha|\(ti|\(dq|\[u[0-9A-F]{4,5}\]|f[BIR])`)
	for name, page := range ManPages(tree(), "1.2", time.Now()) {
		for line := range strings.SplitSeq(string(page), "\n") {
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s: a macro: %s", name, line)
			}
			if rest := escape.ReplaceAllString(line, ""); strings.ContainsAny(rest, "\\`^~") ||
				strings.ContainsFunc(rest, func(r rune) bool { return r > 0x7e }) {
				t.Errorf("%s: not escaped: %s", name, line)
			}
		}
	}
}

func TestCommandReference(t *testing.T) {
	want := "# Commands of way\n\nWay shows it.\n\nSecond paragraph.\n\n## Flags of every command\n\n```\n      --json   print JSON\n```\n" +
		"\n## way route\n\nChange routes, 'as ip':\n\n```\nroute add PREFIX\n      [name NAME]\n\nNAME := \\text\n```\n\n.hidden is no macro.\n" +
		"\n```\nway route [show | add PREFIX … dev IF] [flags]\n```\n" +
		"\nExamples:\n\n```\nway route show\nway route add \"2001:db8::/64\" \\\n    dev eth0\n```\n" +
		"\nFlags:\n\n```\n  -c, --config FILE   the FILE to read\n      --wait TIME     TIME to wait (default 1s)\n```\n"
	if diff := cmp.Diff(want, string(commands(tree()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWriteNamesTheCure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteMan(file, tree(), "1.2", time.Now()); err == nil || !strings.Contains(err.Error(), "name a directory") {
		t.Errorf("%v", err)
	}
}
