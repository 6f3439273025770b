// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

// FieldError is one fault of a [NodeConfig].
type FieldError struct {
	// Path names the field in the words of the configuration file, with
	// indexes into its lists: "encapsulations[1].options[0].size".
	Path    string
	Problem string // what is wrong, with the value
	Cure    string // what to do
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s; %s", e.Path, e.Problem, e.Cure)
}

// ConfigError is every fault of a [NodeConfig], in the order of its fields.
type ConfigError struct {
	Faults []*FieldError
}

// Error has one line per fault.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for errors.As.
func (e *ConfigError) Unwrap() []error {
	errs := make([]error, len(e.Faults))
	for i, fault := range e.Faults {
		errs[i] = fault
	}
	return errs
}

// faults collects faults below a path.
type faults struct {
	list *[]*FieldError
	path string
}

func (f faults) in(format string, args ...any) faults {
	f.path += fmt.Sprintf(format, args...)
	return f
}

// add reports a fault of a field; the problem may have verbs for args.
func (f faults) add(field, cure, problem string, args ...any) {
	path := strings.TrimPrefix(f.path+"."+field, ".")
	*f.list = append(*f.list, &FieldError{
		Path:    strings.TrimSuffix(path, "."),
		Problem: fmt.Sprintf(problem, args...),
		Cure:    cure,
	})
}
