// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	service = "waymark-collector.service"
	// credentials is where systemd puts what LoadCredential= names, while a service runs.
	credentials = "/run/credentials/"
)

// Unit is what systemd lets the service do.
type Unit struct {
	Dynamic bool // systemd makes its user when it starts, who owns only its state
	System  bool // most of the file system is read-only for it
	State   []string
	Write   []string // directories that it may write, as far as its user may
}

// ReadUnit asks systemd for the unit of the service; nil: there is none, or no systemd.
func ReadUnit(ctx context.Context) *Unit {
	text, err := exec.CommandContext(ctx, "systemctl", "show", service,
		"--property=LoadState,DynamicUser,ProtectSystem,ReadWritePaths,BindPaths,StateDirectory").Output()
	if err != nil {
		return nil
	}
	return parseUnit(string(text))
}

func parseUnit(text string) *Unit {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	if values["LoadState"] != "loaded" {
		return nil
	}
	u := &Unit{Dynamic: values["DynamicUser"] == "yes", System: values["ProtectSystem"] == "strict"}
	if u.Dynamic { // systemd.exec(5): it implies ProtectSystem=strict
		u.System = true
	}
	for name := range strings.FieldsSeq(values["StateDirectory"]) {
		name, _, _ = strings.Cut(name, ":")
		u.State = append(u.State, "/var/lib/"+name, "/var/lib/private/"+name)
	}
	for path := range strings.FieldsSeq(values["ReadWritePaths"]) {
		u.Write = append(u.Write, strings.TrimLeft(path, "-+"))
	}
	for bound := range strings.FieldsSeq(values["BindPaths"]) {
		parts := strings.Split(strings.TrimLeft(bound, "-"), ":")
		u.Write = append(u.Write, parts[min(1, len(parts)-1)])
	}
	return u
}

// own is where the service keeps its state.
func (u *Unit) own() string {
	if len(u.State) == 0 {
		return "its StateDirectory="
	}
	return u.State[0]
}

// refuses is why the service may not write a directory; "": it may, as far as the unit says.
func (u *Unit) refuses(directory string) string {
	switch {
	case u == nil || isBelow(directory, u.State):
		return ""
	case u.Dynamic:
		return fmt.Sprintf("the service cannot write %s: systemd makes its user when it starts (DynamicUser), who owns only %s", directory,
			u.own())
	case u.System && !isBelow(directory, u.Write):
		return fmt.Sprintf("%s is read-only for the service (ProtectSystem=strict, without ReadWritePaths=%s)", directory, directory)
	}
	return ""
}

func isBelow(path string, directories []string) bool {
	for _, d := range directories {
		if rest, err := filepath.Rel(d, path); err == nil && filepath.IsLocal(rest) {
			return true
		}
	}
	return false
}

// credentialIn is the file of an error that is not there because the service does not run; "": it is another error.
func credentialIn(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) && errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(of.Path, credentials) {
		return of.Path
	}
	return ""
}
