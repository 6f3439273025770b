// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

// shadowedBegin is the beginning of the text about an encapsulation.
func shadowedBegin(encapsulation string) string {
	return fmt.Sprintf("no packet gets the header of encapsulation %s: ", encapsulation)
}

// IsShadowed reports whether a warning says that no packet gets the header of an
// encapsulation.
func IsShadowed(w Warning, encapsulation string) bool {
	return w.Code == EncapShadowed && strings.HasPrefix(w.Text, shadowedBegin(encapsulation))
}

func shadowed(e Encapsulation) Warning {
	return New(
		EncapShadowed,
		e.Interface,
		shadowedBegin(e.Name)+fmt.Sprintf(
			"encapsulation %s comes before it, has the same destination prefix, and matches all of its packets",
			e.ShadowedBy,
		),
		fmt.Sprintf("put %s before %s in the configuration, give it a longer destination prefix, or remove it", e.Name, e.ShadowedBy),
	)
}
