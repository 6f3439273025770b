// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// FieldError is one error of a [NodeConfig].
type FieldError struct {
	// Path names the field as in the configuration file, with indexes into its
	// lists: "encapsulations[1].options[0].size".
	Path    string
	Problem string // the error, with the value
	Cure    string // what to do
	Code    problem.Code
}

// The codes of errors whose cure is a command when commands change a running node.
const (
	CodeEncapsulations     problem.Code = "encapsulations"      // too many
	CodeNamespaces         problem.Code = "namespaces"          // too many
	CodeDecapsulations     problem.Code = "decapsulations"      // too many
	CodeInterfaceUnserved  problem.Code = "interface_unserved"  // of an encapsulation
	CodeNoEgressRole       problem.Code = "no_egress_role"      // of the interface of an encapsulation
	CodeDestinationOverlap problem.Code = "destination_overlap" // of too many encapsulations
)

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s; %s", e.Path, e.Problem, e.Cure)
}

// ConfigError is every error of a [NodeConfig], in the order of its fields.
type ConfigError struct {
	Faults []*FieldError
}

// Error has one line per error.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors, for errors.As.
func (e *ConfigError) Unwrap() []error {
	errs := make([]error, len(e.Faults))
	for i, fault := range e.Faults {
		errs[i] = fault
	}
	return errs
}

// faults collects errors below a path.
type faults struct {
	list *[]*FieldError
	path string
	code problem.Code
}

func (f faults) in(format string, args ...any) faults {
	f.path += fmt.Sprintf(format, args...)
	return f
}

// as gives the errors that are added a code.
func (f faults) as(code problem.Code) faults {
	f.code = code
	return f
}

// mostErrors bounds the errors of a configuration: with more, the first ones are corrected first.
const mostErrors = 1000

// add adds an error of a field; problem is a format string for args.
func (f faults) add(field, cure, problem string, args ...any) {
	if len(*f.list) >= mostErrors {
		return
	}
	path := strings.TrimPrefix(f.path+"."+field, ".")
	*f.list = append(*f.list, &FieldError{
		Path:    strings.TrimSuffix(path, "."),
		Problem: fmt.Sprintf(problem, args...),
		Cure:    cure,
		Code:    f.code,
	})
}
