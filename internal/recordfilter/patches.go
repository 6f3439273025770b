// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// Functions of ours in expressions.
const (
	functionDuration = "duration" // a text such as "1ms" as nanoseconds
	functionWithin   = "within"   // whether an address is in a prefix
)

func ourFunctions() []expr.Option {
	return []expr.Option{
		expr.Function(functionDuration, func(...any) (any, error) { return nil, nil }, new(func(string) int)), // constants replace it
		expr.Function(
			functionWithin,
			within,
			new(func(string, string) bool),
			new(func(any, string) bool),
			new(func(string, netip.Prefix) bool),
			new(func(any, netip.Prefix) bool),
		),
	}
}

func within(args ...any) (any, error) {
	text, isText := args[0].(string)
	prefix, isPrefix := args[1].(netip.Prefix)
	if !isText || !isPrefix {
		return false, nil
	}
	addr, err := netip.ParseAddr(text)
	return err == nil && prefix.Contains(addr), nil
}

// limits looks at an expression as written: it refuses what could take long, and notes the
// names of the fields that are used.
type limits struct {
	source file.Source
	wanted map[string]bool
	fields map[string]bool // those of the record itself
	fault  error
}

func (l *limits) refuse(at ast.Node, format string, args ...any) {
	if l.fault == nil {
		e := &file.Error{Location: at.Location(), Message: fmt.Sprintf(format, args...)}
		l.fault = e.Bind(l.source)
	}
}

// Visit looks at a node after those below it.
func (l *limits) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		l.wanted[n.Value], l.fields[n.Value] = true, true
		if n.Value == "$env" {
			l.refuse(n, "$env is not available")
		}
	case *ast.StringNode: // also the name of a member
		l.wanted[n.Value] = true
	case *ast.MemberNode:
		if !isConstant(n.Property) {
			l.refuse(n, "want the name of a field, or the number of an item, in brackets")
		}
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		l.refuse(n, "want one condition, without names of its own")
	case *ast.BuiltinNode:
		if !slices.Contains(functions, n.Name) {
			l.refuse(n, "unknown name %s", n.Name)
		}
	case *ast.MapNode:
		l.refuse(n, "an object cannot be written here")
	case *ast.PredicateNode:
		if loop := loopIn(n.Node); loop != nil {
			l.refuse(loop, "%s within the brackets of another is not possible", loop.Name)
		}
	case *ast.BinaryNode:
		l.binary(n)
	case *ast.CallNode:
		l.call(n)
	}
}

func isConstant(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.StringNode, *ast.IntegerNode:
		return true
	case *ast.UnaryNode: // the last item is number -1
		return isConstant(n.Node)
	}
	return false
}

func (l *limits) binary(n *ast.BinaryNode) {
	switch n.Operator {
	case "..":
		l.refuse(n, "a range is not possible")
	case "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			l.refuse(n.Right, "the pattern must be a text")
			return
		}
		parsed, err := syntax.Parse(pattern.Value, syntax.Perl)
		if err != nil {
			l.refuse(n.Right, "%v", err)
			return
		}
		if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxRegexp {
			l.refuse(n.Right, "the pattern is too long")
		}
	case "==", "!=", "in", "not in":
		for _, side := range []ast.Node{n.Left, n.Right} {
			if side.Type().Kind() == reflect.Map {
				l.refuse(side, "an object has no value to compare; compare one of its fields")
			}
		}
	}
}

func (l *limits) call(n *ast.CallNode) {
	switch callee, _ := n.Callee.(*ast.IdentifierNode); {
	case callee == nil:
		l.refuse(n, "this is no function")
	case callee.Value == functionDuration && len(n.Arguments) == 1:
		if _, err := durationOf(n.Arguments[0]); err != nil {
			l.refuse(n.Arguments[0], "%v", err)
		}
	case callee.Value == functionWithin && len(n.Arguments) == 2:
		if _, err := prefixOf(n.Arguments[1]); err != nil {
			l.refuse(n.Arguments[1], "%v", err)
		}
	}
}

func durationOf(n ast.Node) (time.Duration, error) {
	text, ok := n.(*ast.StringNode)
	if !ok {
		return 0, fmt.Errorf(`want a time such as "1ms"`)
	}
	d, err := time.ParseDuration(text.Value)
	if err != nil {
		return 0, fmt.Errorf(`%q: want a time such as "1ms"`, text.Value)
	}
	return d, nil
}

func prefixOf(n ast.Node) (netip.Prefix, error) {
	text, ok := n.(*ast.StringNode)
	if !ok {
		return netip.Prefix{}, fmt.Errorf(`want a prefix such as "2001:db8::/32"`)
	}
	p, err := parsePrefix(text.Value)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf(`%q: want a prefix such as "2001:db8::/32"`, text.Value)
	}
	return p, nil
}

// loopIn finds a function that looks at each item of a list.
func loopIn(n ast.Node) *ast.BuiltinNode {
	found := &loops{}
	ast.Walk(&n, found)
	return found.first
}

type loops struct{ first *ast.BuiltinNode }

func (l *loops) Visit(node *ast.Node) {
	if b, ok := (*node).(*ast.BuiltinNode); ok && l.first == nil && isLoop(b) {
		l.first = b
	}
}

// isLoop reports whether a function looks at each item of a list with a condition.
func isLoop(b *ast.BuiltinNode) bool {
	return slices.ContainsFunc(b.Arguments, func(argument ast.Node) bool {
		_, ok := argument.(*ast.PredicateNode)
		return ok
	})
}

// constants replaces the constant arguments of our functions by their values.
type constants struct{}

// Visit looks at a node after those below it.
func (*constants) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.CallNode)
	if !ok {
		return
	}
	switch callee, _ := n.Callee.(*ast.IdentifierNode); {
	case callee == nil:
	case callee.Value == functionDuration && len(n.Arguments) == 1:
		if d, err := durationOf(n.Arguments[0]); err == nil {
			ast.Patch(node, &ast.IntegerNode{Value: int(d)})
		}
	case callee.Value == functionWithin && len(n.Arguments) == 2:
		if p, err := prefixOf(n.Arguments[1]); err == nil {
			n.Arguments[1] = &ast.ConstantNode{Value: p}
		}
	}
}

// tolerance makes an expression true or false also for a record without a field: a value that
// is absent equals nothing, is neither less nor greater than anything, and is not true; an
// absent list is empty.
type tolerance struct{}

// Visit looks at a node after those below it.
func (t *tolerance) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.MemberNode:
		n.Optional = true
		ast.Patch(node, &ast.ChainNode{Node: n})
	case *ast.BuiltinNode:
		if mayLack(n.Arguments[0]) && (isLoop(n) || n.Name == "len") {
			n.Arguments[0] = &ast.BinaryNode{Operator: "??", Left: n.Arguments[0], Right: &ast.ArrayNode{}}
		}
	case *ast.PredicateNode:
		n.Node = truth(n.Node)
	case *ast.ConditionalNode:
		n.Cond = truth(n.Cond)
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			n.Node = truth(n.Node)
		}
	case *ast.BinaryNode:
		t.binary(node, n)
	}
}

func (*tolerance) binary(node *ast.Node, n *ast.BinaryNode) {
	and, is := "and", "!="
	switch n.Operator {
	case "and", "or", "&&", "||":
		n.Left, n.Right = truth(n.Left), truth(n.Right)
		return
	case "!=":
		and, is = "or", "=="
	case "==", "<", "<=", ">", ">=":
	default:
		return
	}
	_, left := n.Left.(*ast.NilNode)
	_, right := n.Right.(*ast.NilNode)
	if left || right {
		return // asks whether it is there
	}
	var guarded ast.Node = n
	for _, side := range []ast.Node{n.Right, n.Left} {
		if mayLack(side) {
			there := &ast.BinaryNode{Operator: is, Left: side, Right: &ast.NilNode{}}
			guarded = &ast.BinaryNode{Operator: and, Left: there, Right: guarded}
		}
	}
	ast.Patch(node, guarded)
}

// mayLack reports whether a value may be absent.
func mayLack(n ast.Node) bool {
	switch n.(type) {
	case *ast.IdentifierNode, *ast.ChainNode, *ast.PointerNode:
		return true
	}
	return false
}

// truth is a condition that is false where the field is absent.
func truth(n ast.Node) ast.Node {
	if !mayLack(n) || n.Type() == nil || n.Type().Kind() != reflect.Bool {
		return n
	}
	return &ast.BinaryNode{Operator: "==", Left: n, Right: &ast.BoolNode{Value: true}}
}
