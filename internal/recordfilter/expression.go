// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/waymark-net/waymark/internal/record"
)

// Bounds of an expression. Without loops in loops and without names for intermediate values,
// the time and the memory for a record are at most its size times the expression's length.
const (
	maxLength = 1024 // bytes
	maxNodes  = 200  // operators, names and values
	maxMemory = 4096 // items of lists that one evaluation makes
	maxRegexp = 1000 // instructions of a compiled pattern
)

// functions are those of the library that an expression may use, besides ours. None of them
// makes a value that is larger than what it gets.
var functions = []string{
	"all", "any", "none", "one", "filter", "map", "count", "find", "sum", "len", "min", "max", "mean", "median",
	"abs", "ceil", "floor", "round", "int", "float", "lower", "upper", "trim",
}

// expression is a compiled condition on the fields of a record.
type expression struct {
	program *vm.Program
	machine vm.VM
	values  values
	fields  map[string]bool // names that it uses, of fields and of functions
}

// compile reads an expression. Its errors point at the place.
func compile(text string) (of *expression, err error) {
	defer func() { // the library's, for a text that its authors did not think of
		if cause := recover(); cause != nil {
			of, err = nil, fmt.Errorf("the expression cannot be read: %v", cause)
		}
	}()
	switch {
	case len(text) > maxLength:
		return nil, fmt.Errorf("the expression has %d bytes, more than the limit of %d", len(text), maxLength)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }):
		return nil, errors.New("the expression has characters that cannot be printed")
	}
	options := []expr.Option{expr.Env(environment()), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	options = append(options, ourFunctions()...)
	limits := &limits{source: file.NewSource(text), wanted: map[string]bool{}, fields: map[string]bool{}}
	// The types are checked as written, so that errors are about that; the limits, too.
	if _, err := expr.Compile(text, append(options, expr.Patch(limits))...); limits.fault != nil {
		return nil, explain(limits.fault)
	} else if err != nil {
		return nil, explain(err)
	}
	program, err := expr.Compile(text, append(options, expr.MaxNodes(10*maxNodes), expr.Patch(&constants{}), expr.Patch(&tolerance{}))...)
	if err != nil {
		return nil, explain(err)
	}
	return &expression{
		program: program,
		machine: vm.VM{MemoryBudget: maxMemory},
		values:  values{wanted: limits.wanted, fields: map[string]any{}},
		fields:  limits.fields,
	}, nil
}

// match reports whether the condition is true for a record.
func (e *expression) match(r record.Record) (bool, error) { return e.matchWith(r, nil) }

// matchWith is match with more fields than the record has.
func (e *expression) matchWith(r record.Record, more map[string]any) (bool, error) {
	fields := e.values.of(r)
	for key, value := range more {
		if e.values.wanted[key] {
			fields[key] = value
		}
	}
	result, err := e.machine.Run(e.program, fields)
	if err != nil {
		return false, explain(err)
	}
	is, _ := result.(bool) // nil: the record lacks the field
	return is, nil
}

// explain makes an error of the library ours: what is wrong, then the line and a caret below
// the place.
func explain(err error) error {
	var at *file.Error
	if !errors.As(err, &at) || at.Snippet == "" {
		return errors.New(strings.TrimSpace(err.Error()))
	}
	cure := ""
	if strings.HasPrefix(at.Message, "unknown ") {
		cure = "; names are the keys of a record with --json"
	}
	return fmt.Errorf("column %d: %s%s%s", at.Column+1, at.Message, cure, strings.ReplaceAll(at.Snippet, "\n | ", "\n  "))
}
