// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// texts say what the fields of this package's answers and events mean.
var texts = query.Texts{
	reflect.TypeFor[Begun](): {
		"from":   "Since when the stream has what was kept.",
		"missed": "How many packets of that time are left out; 0 for a role that sees a part.",
	},
	reflect.TypeFor[Missed](): {
		"missed": "Items that were left out since the last event of this name: there were more than rate, or the reader was too slow. Some of them may not have been selected. 0: a role that sees a part learns no number.",
	},
	reflect.TypeFor[Heartbeat](): {
		"time":    "The collector's clock.",
		"readers": "How many watch; 0 for a role that sees a part.",
		"fault":   "Why nothing is written, and so nothing is shown; absent when everything is.",
	},
	reflect.TypeFor[Caller](): {
		"user":  "Name; absent where the collector has no users.",
		"role":  "admin or viewer.",
		"part":  "The role sees a part of the packets.",
		"login": "The user logged in with OpenID Connect; POST /logout ends that.",
	},
	reflect.TypeFor[failure](): {
		"kind":  "The word error.",
		"error": "What is wrong, and what to do.",
	},
}

// textOf says what a field of an answer means; "" if there is no text. An embedded structure has those of its fields.
func textOf(t reflect.Type, f reflect.StructField, key string) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	for _, list := range []query.Texts{query.AnswerTexts, query.RecordTexts} {
		if text := list[t][key]; text != "" {
			return text
		}
	}
	return texts[t][key]
}
