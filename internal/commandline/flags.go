// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/problem"
)

// DurationWords describes the form of a time.
const DurationWords = "want a time with its unit, such as 5s, 200ms or 1m"

// flagError words what is wrong with the flags of a command line, without the
// words of the language that this is written in.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	see := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	switch {
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		return Usagef("--%s %q: %s", flag.Name, invalid.GetValue(), wants(flag.Value.Type(), err))
	case errors.As(err, &missing):
		flag := missing.GetFlag()
		name, _ := pflag.UnquoteUsage(flag)
		return Usage(problem.New(fmt.Sprintf("--%s needs a value: --%s %s", flag.Name, flag.Name, name), see))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		if near := flagsNear(cmd, unknown.GetSpecifiedName()); len(near) > 0 {
			return Usage(problem.Append(err, fmt.Sprintf("did you mean --%s?", strings.Join(near, " or --"))))
		}
	case errors.As(err, &unknown):
		letter := unknown.GetSpecifiedName()[:1]
		if meant := meantByLetter(cmd, letter); meant != "" {
			see = "did you mean " + meant + "?"
		}
		return Usage(problem.New("unknown flag: -"+letter, see))
	}
	return Usage(problem.Append(err, see))
}

// lettersOfOthers are flags that other programs have with one letter.
var lettersOfOthers = map[string][]string{
	"v": {"verbose", "version"}, "j": {"json"}, "w": {"wide"}, "c": {"config", "count"}, "n": {"count", "namespace"}, "f": {"follow"},
	"i": {"interval", "interface"}, "p": {"port"}, "s": {"socket"}, "o": {"output"},
}

// meantByLetter are the flags of a command for a letter that other programs have for them; "" if there are none.
func meantByLetter(cmd *cobra.Command, letter string) string {
	var list []string
	for _, name := range lettersOfOthers[letter] {
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			flag = cmd.InheritedFlags().Lookup(name)
		}
		switch {
		case flag != nil && flag.Shorthand != "":
			list = append(list, "-"+flag.Shorthand+" (--"+name+")")
		case flag != nil:
			list = append(list, "--"+name)
		}
	}
	return strings.Join(list, " or ")
}

// flagsNear are the flags of a command whose names are like a word, as cobra finds commands.
func flagsNear(cmd *cobra.Command, word string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(word)
}

// wants describes the values of a flag, by pflag's name of its type.
func wants(kind string, err error) string {
	switch {
	case kind == "duration":
		return DurationWords
	case kind == "bool":
		return "want true or false"
	case strings.HasPrefix(kind, "float"):
		return "want a number"
	case strings.HasPrefix(kind, "uint"):
		bits, sizeErr := strconv.Atoi(strings.TrimPrefix(kind, "uint"))
		if sizeErr != nil {
			bits = strconv.IntSize
		}
		return fmt.Sprintf("want a whole number from 0 to %d", ^uint64(0)>>(64-bits))
	case strings.HasPrefix(kind, "int") && errors.Is(err, strconv.ErrRange):
		return "this number is out of range"
	case strings.HasPrefix(kind, "int"):
		return "want a whole number"
	}
	return "invalid value: " + err.Error()
}
