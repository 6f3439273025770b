// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// compilers are the first versions of GCC whose libstdc++ has the versions of symbols up to these
// (https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html).
var compilers = []struct{ gcc, glibcxx, cxxabi string }{
	{"11", "3.4.29", "1.3.13"},
	{"12", "3.4.30", "1.3.13"},
	{"13.1", "3.4.31", "1.3.14"},
	{"13.2", "3.4.32", "1.3.14"},
	{"14", "3.4.33", "1.3.15"},
	{"15", "3.4.34", "1.3.16"},
}

// librariesOf reads which libraries a program loads when it starts, and which versions of their symbols.
func librariesOf(program string) ([]elf.DynamicVersionNeed, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.DynamicVersionNeeds()
}

// dependencies are the packages that have these libraries: for a .deb by name, for an .rpm by the names of
// symbols' versions, which the packages of all distributions with RPM provide.
func dependencies(kind string, libraries []elf.DynamicVersionNeed) ([]string, error) {
	var list []string
	newest := map[string]string{} // by the part of the name before the number
	for _, l := range libraries {
		for _, v := range l.Needs {
			if kind == "rpm" {
				list = append(list, l.Name+"("+v.Dep+")(64bit)")
			}
			if set, version, ok := strings.Cut(v.Dep, "_"); !ok || strings.Trim(version, "0123456789.") != "" {
				return nil, fmt.Errorf("%s: no package is known for %s", l.Name, v.Dep)
			} else if compareVersions(version, newest[set]) > 0 {
				newest[set] = version
			}
		}
	}
	if kind == "deb" {
		for set, version := range newest {
			switch set {
			case "GLIBC":
				list = append(list, "libc6 (>= "+version+")")
			case "GCC":
				list = append(list, "libgcc-s1 (>= "+version+")")
			case "GLIBCXX":
				i := slices.IndexFunc(compilers, func(c struct{ gcc, glibcxx, cxxabi string }) bool {
					return compareVersions(c.glibcxx, version) >= 0 && compareVersions(c.cxxabi, newest["CXXABI"]) >= 0
				})
				if i < 0 {
					return nil, fmt.Errorf("no GCC of compilers has a libstdc++ with GLIBCXX_%s and CXXABI_%s", version, newest["CXXABI"])
				}
				list = append(list, "libstdc++6 (>= "+compilers[i].gcc+")")
			case "CXXABI":
			default:
				return nil, fmt.Errorf("no package is known for %s_%s", set, version)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// compareVersions compares numbers with points between them; "" is less than any.
func compareVersions(a, b string) int {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}
