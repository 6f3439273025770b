// SPDX-License-Identifier: Apache-2.0

package build

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"
)

// library is what a program needs of one.
func library(name string, versions ...string) elf.DynamicVersionNeed {
	l := elf.DynamicVersionNeed{Name: name}
	for _, v := range versions {
		l.Needs = append(l.Needs, elf.DynamicVersionDep{Dep: v})
	}
	return l
}

// A package asks for the newest version of each library that its program needs: numbers count, not letters.
func TestDependencies(t *testing.T) {
	collector := []elf.DynamicVersionNeed{
		library("libc.so.6", "GLIBC_2.34", "GLIBC_2.4"),
		library("libm.so.6", "GLIBC_2.29"),
		library("libgcc_s.so.1", "GCC_3.0"),
		library("libstdc++.so.6", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "CXXABI_1.3.13"),
	}
	for _, c := range []struct {
		kind, want string
		libraries  []elf.DynamicVersionNeed
	}{
		{"deb", "libc6 (>= 2.34), libgcc-s1 (>= 3.0), libstdc++6 (>= 12)", collector},
		{"deb", "libc6 (>= 2.34), libgcc-s1 (>= 3.0), libstdc++6 (>= 14)",
			append(slices.Clone(collector), library("libstdc++.so.6", "CXXABI_1.3.15"))},
		{"rpm", "libc.so.6(GLIBC_2.34)(64bit), libc.so.6(GLIBC_2.4)(64bit), libgcc_s.so.1(GCC_3.0)(64bit), libm.so.6(GLIBC_2.29)(64bit), " +
			"libstdc++.so.6(CXXABI_1.3.13)(64bit), libstdc++.so.6(GLIBCXX_3.4.30)(64bit), libstdc++.so.6(GLIBCXX_3.4.9)(64bit)", collector},
		{"deb", "", nil}, // a static program
	} {
		got, err := dependencies(c.kind, c.libraries)
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%s: %s, %v; want %s", c.kind, text, err, c.want)
		}
	}
	for _, v := range []string{"GLIBCXX_3.4.99", "OPENSSL_3.0.0", "GLIBC_ABI_DT_RELR"} {
		if got, err := dependencies("deb", []elf.DynamicVersionNeed{library("lib.so", v)}); err == nil {
			t.Errorf("%s: %q without an error", v, got)
		}
	}
}
