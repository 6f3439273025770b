// SPDX-License-Identifier: Apache-2.0

// Names of the network in drawings, where text does not end by itself at an edge.

let pen: CanvasRenderingContext2D | null = null

/** How wide a text is in pixels. */
function widthOf(text: string, font: string): number {
  pen ??= document.createElement('canvas').getContext('2d')
  if (!pen) return text.length * 8
  pen.font = font
  return pen.measureText(text).width
}

/** As much of a text as is at most so wide, by a function that measures; whole characters, with … for the rest. */
export function fitted(text: string, most: number, width: (text: string) => number): string {
  if (width(text) <= most) return text
  const all = [...new Intl.Segmenter('en').segment(text)].map((s) => s.segment)
  let least = 0, greatest = all.length
  while (least < greatest) { // the longest begin that has room
    const middle = Math.ceil((least + greatest) / 2)
    if (width(`${all.slice(0, middle).join('')}…`) <= most) least = middle
    else greatest = middle - 1
  }
  return `${all.slice(0, least).join('')}…`
}

export const fit = (text: string, most: number, font: string): string => fitted(text, most, (t) => widthOf(t, font))
