// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
)

// NamespaceSettings are the settings of a namespace that are on or off.
var NamespaceSettings = []string{"remove", "e2e", "incremental", "loopback", "terminate-active", "drop-rejected"}

// settingWords are these in a sentence.
var settingWords = strings.Join(NamespaceSettings, ", ")

// NoProof is what follows pot to end the proof of transit of a namespace.
const NoProof = "none"

// isSetting reports whether a word begins a setting of a namespace.
func isSetting(word string) bool { return word == "pot" || slices.Contains(NamespaceSettings, word) }

// settings reads settings, each once.
func (w *words) settings() (*config.NamespaceChange, error) {
	change, seen := &config.NamespaceChange{}, map[string]bool{}
	for w.more() {
		word, _ := w.take("")
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
		file, err := w.take("pot")
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
	*map[string]**bool{
		"remove": &change.Remove, "e2e": &change.EdgeToEdge, "incremental": &change.Incremental,
		"loopback": &change.Loopback, "terminate-active": &change.TerminateActive, "drop-rejected": &change.Proof.DropRejected,
	}[word] = on
	return nil
}

func (w *words) onOff(name string) (*bool, error) {
	word, err := w.take(name)
	if err != nil {
		return nil, err
	}
	if word != "on" && word != "off" {
		return nil, fmt.Errorf("%s %q: want on or off", name, word)
	}
	on := word == "on"
	return &on, nil
}
