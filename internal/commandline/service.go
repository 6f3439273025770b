// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"os"
	"path/filepath"
)

// unitDirectories are where systemd looks for units of packages and of the operator.
var unitDirectories = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// running is a directory that is there while systemd runs the machine.
var running = "/run/systemd/system"

// ToStart is the command that starts a program: as a service where its unit is installed and systemd runs, else the
// given one.
func ToStart(unit, command string) string {
	if _, err := os.Stat(running); err != nil {
		return command
	}
	for _, directory := range unitDirectories {
		if info, err := os.Stat(filepath.Join(directory, unit+".service")); err == nil && info.Mode().IsRegular() {
			return "systemctl start " + unit
		}
	}
	return command
}
