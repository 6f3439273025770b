// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/shellword"
)

// FlowCommand is "flow add|del|show …", in the manner of iproute2, which has no such
// command; segs and mode are those of "encap seg6".
type FlowCommand struct {
	Verb Verb
	Flow config.Flow // Add; Del uses only its name, and Show, where "" is all
}

// ParseFlow reads what follows "flow".
func ParseFlow(args []string) (FlowCommand, error) {
	var c FlowCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Add, Del, Show); err != nil {
		return c, err
	}
	if c.Verb == Show && !w.more() {
		return c, nil
	}
	if c.Flow.Name, err = w.nextWord("flow " + string(c.Verb) + " NAME"); err != nil || c.Verb != Add {
		if err == nil {
			err = w.end()
		}
		return c, err
	}
	word, err := w.nextWord("flow add " + c.Flow.Name + " out, in or transit")
	if err != nil {
		return c, err
	}
	if c.Flow.Direction, err = config.ParseText[model.Direction](word); err != nil {
		return c, fmt.Errorf("direction %w", err)
	}
	return c, w.flow(&c.Flow)
}

// flow reads the words after a flow's direction.
func (w *words) flow(f *config.Flow) error {
	given := make(map[string]bool)
	for w.more() {
		name, _ := w.nextWord("")
		word := flowWordOf(name)
		if word == nil {
			return fmt.Errorf("%q: want one of %s", name, flowWordList())
		}
		if given[name] {
			return fmt.Errorf("%s: given twice", name)
		}
		given[name] = true
		if err := word.read(w, f); err != nil {
			return err
		}
	}
	for _, needed := range []string{"src", "segs"} {
		if !given[needed] {
			return fmt.Errorf("%s is missing: flow add NAME DIRECTION src ADDR segs SID,SID", needed)
		}
	}
	return nil
}

// FormatFlow writes a flow as the words that add it.
func FormatFlow(f config.Flow) string {
	list := []string{f.Name, f.Direction.String()}
	for i := range flowWords {
		word := &flowWords[i]
		value, given := word.text(&f)
		if !given && word.name != "mode" { // mode is always shown, as by "ip route"
			continue
		}
		if list = append(list, word.name); word.value != "" {
			list = append(list, value)
		}
	}
	return shellword.Join(list)
}

// CompleteFlow lists what may follow the words of "flow": words, or the values of the last one.
func CompleteFlow(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"show", "add", "del"}
	case args[0] != "add" || len(args) == 1:
		return nil
	case len(args) == 2:
		return config.WordsOf[model.Direction]()
	}
	given := make(map[string]bool)
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		word := flowWordOf(rest[0])
		if word == nil {
			return nil
		}
		given[word.name] = true
		if word.value == "" {
			continue
		}
		if rest = rest[1:]; len(rest) == 0 {
			return word.words
		}
	}
	var list []string
	for _, word := range flowWords {
		if !given[word.name] {
			list = append(list, word.name)
		}
	}
	return list
}
