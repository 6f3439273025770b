// SPDX-License-Identifier: Apache-2.0

package pot

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// Prime is 2^61 − 1, a Mersenne prime: a product is reduced by shifts and additions, and
// every value fits the 64 bits of POT-Type 0 (RFC 9197 §4.5.1).
const Prime uint64 = 1<<61 - 1

// reduce is x mod Prime.
func reduce(x uint64) uint64 {
	x = x&Prime + x>>61 // 2^61 ≡ 1
	if x >= Prime {
		x -= Prime
	}
	return x
}

// add is a + b mod Prime, of numbers below it.
func add(a, b uint64) uint64 { return reduce(a + b) }

// sub is a − b mod Prime, of numbers below it.
func sub(a, b uint64) uint64 { return reduce(a + Prime - b) }

// mul is a·b mod Prime, of numbers below it.
func mul(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return reduce(low&Prime + (high<<3 | low>>61))
}

// inverse is 1/a mod Prime, by Fermat's little theorem; a is not 0.
func inverse(a uint64) uint64 {
	result := uint64(1)
	for exponent := Prime - 2; exponent > 0; exponent >>= 1 {
		if exponent&1 != 0 {
			result = mul(result, a)
		}
		a = mul(a, a)
	}
	return result
}

// element draws an element of the field: all are equally likely.
func element(random io.Reader) (uint64, error) {
	for {
		var b [8]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0, fmt.Errorf("read random numbers: %w", err)
		}
		if x := binary.BigEndian.Uint64(b[:]) & (1<<61 - 1); x != Prime {
			return x, nil
		}
	}
}

// polynomial is the coefficients of one, the constant term first.
type polynomial []uint64

// randomPolynomial draws the coefficients of one of a degree.
func randomPolynomial(random io.Reader, degree int) (polynomial, error) {
	p := make(polynomial, degree+1)
	for i := range p {
		var err error
		if p[i], err = element(random); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// at is the polynomial's value at x.
func (p polynomial) at(x uint64) uint64 {
	var y uint64
	for i := len(p) - 1; i >= 0; i-- {
		y = add(mul(y, x), p[i])
	}
	return y
}

// lagrange returns the basis polynomials of distinct points, each at 0: the sum of
// lagrange(points)[i]·f(points[i]) is f(0), of every f whose degree is below the number
// of points.
func lagrange(points []uint64) []uint64 {
	list := make([]uint64, len(points))
	for i, x := range points {
		numerator, denominator := uint64(1), uint64(1)
		for j, other := range points {
			if i != j {
				numerator = mul(numerator, other)
				denominator = mul(denominator, sub(other, x))
			}
		}
		list[i] = mul(numerator, inverse(denominator))
	}
	return list
}

// defaultRandom is where keys come from.
var defaultRandom = rand.Reader
