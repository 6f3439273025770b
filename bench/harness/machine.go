// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine names the processor and the kernel that a figure belongs to.
func machine() (machine, kernel string) {
	model, hypervisor := "unknown processor", ""
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), ":")
			switch strings.TrimSpace(key) {
			case "model name":
				model = strings.TrimSpace(value)
			case "flags":
				if strings.Contains(value+" ", " hypervisor ") {
					hypervisor = ", virtual machine"
				}
			}
		}
	}
	machine = fmt.Sprintf("%s, %d CPUs%s, %s", model, runtime.NumCPU(), hypervisor, runtime.GOARCH)
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	return machine, kernel
}

// versions are those that a figure depends on besides machine and kernel.
func versions(waymark, commit string) map[string]string {
	list := map[string]string{"go": runtime.Version()}
	for name, value := range map[string]string{"waymark": waymark, "commit": commit} {
		if value != "" {
			list[name] = value
		}
	}
	if out, err := exec.Command("ip", "-V").Output(); err == nil {
		list["ip"] = strings.TrimPrefix(strings.TrimSpace(string(out)), "ip utility, ")
	}
	return list
}
