// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
)

// Setting is one of a namespace that is on or off.
type Setting struct {
	Word string
	IsOn func(*config.Namespace) bool
	set  func(change *config.NamespaceChange, on bool)
}

// NamespaceSettings are all of them: the switches of the configuration, and that of its proof of transit.
var NamespaceSettings = append(namespaceSwitches(), Setting{
	"drop-rejected",
	func(n *config.Namespace) bool { return n.Proof != nil && n.Proof.DropRejected },
	func(c *config.NamespaceChange, on bool) { c.Proof.DropRejected = &on },
})

func namespaceSwitches() (list []Setting) {
	for _, s := range config.NamespaceSwitches {
		list = append(list, Setting{s.Key, s.IsOn, s.Set})
	}
	return list
}

// SettingWords are their words.
func SettingWords() (list []string) {
	for _, s := range NamespaceSettings {
		list = append(list, s.Word)
	}
	return list
}

// settingWords are these in a sentence.
var settingWords = strings.Join(SettingWords(), ", ")

// NoProof is what follows pot to end the proof of transit of a namespace.
const NoProof = "none"

// isSetting reports whether a word begins a setting of a namespace.
func isSetting(word string) bool { return word == "pot" || slices.Contains(SettingWords(), word) }

// settings reads settings, each once.
func (w *words) settings() (*config.NamespaceChange, error) {
	change, seen := &config.NamespaceChange{}, map[string]bool{}
	for w.more() {
		word, _ := w.nextWord("")
		switch {
		case !isSetting(word):
			return nil, fmt.Errorf("%q: want pot, or one of %s", word, settingWords)
		case seen[word]:
			return nil, fmt.Errorf("%s: given twice", word)
		}
		seen[word] = true
		if err := w.setting(change, word); err != nil {
			return nil, err
		}
	}
	return change, nil
}

// setting reads what follows the word of a setting.
func (w *words) setting(change *config.NamespaceChange, word string) error {
	if word == "pot" {
		file, err := w.nextWord("pot")
		if err != nil || file == "" {
			return errors.New("pot: want the file with this node's key, as 'waymark pot generate' makes it, or none")
		}
		if file == NoProof {
			file = ""
		}
		change.Proof.KeyFile = &file
		return nil
	}
	on, err := w.onOff(word)
	if err != nil {
		return err
	}
	for _, s := range NamespaceSettings {
		if s.Word == word {
			s.set(change, on)
		}
	}
	return nil
}

func (w *words) onOff(name string) (bool, error) {
	word, err := w.nextWord(name)
	if err != nil {
		return false, err
	}
	if word != "on" && word != "off" {
		return false, fmt.Errorf("%s %q: want on or off", name, word)
	}
	return word == "on", nil
}
