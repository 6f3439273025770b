// SPDX-License-Identifier: Apache-2.0

// Package kept compares what a version makes of something with what an earlier one made of it: more may be
// there, but nothing may be gone or have another value.
package kept

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MissingJSON lists what one value in JSON has, and another one has not.
func MissingJSON(then, now []byte) []string {
	var a, b any
	if err := json.Unmarshal(then, &a); err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal(now, &b); err != nil {
		return []string{err.Error()}
	}
	return Missing("", a, b)
}

// Missing lists what one tree of values has, and another one has not.
func Missing(path string, then, now any) []string {
	var list []string
	switch then := then.(type) {
	case map[string]any:
		other, ok := now.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, was %v", path, now, then)}
		}
		for key, value := range then {
			if _, there := other[key]; !there {
				list = append(list, fmt.Sprintf("%s.%s is gone, was %v", path, key, value))
				continue
			}
			list = append(list, Missing(path+"."+key, value, other[key])...)
		}
	case []any:
		other, ok := now.([]any)
		if !ok || len(other) != len(then) {
			return []string{fmt.Sprintf("%s is %v, was %v", path, now, then)}
		}
		for i, value := range then {
			list = append(list, Missing(fmt.Sprintf("%s[%d]", path, i), value, other[i])...)
		}
	default:
		if then != now {
			return []string{fmt.Sprintf("%s is %v, was %v", path, now, then)}
		}
	}
	slices.Sort(list)
	return list
}
