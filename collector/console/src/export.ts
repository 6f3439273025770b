// SPDX-License-Identifier: Apache-2.0

// Answers as files.

export type Value = string | number | bigint | boolean | null | undefined

/** A value in a line of CSV (RFC 4180). Text that a spreadsheet would run as a formula gets an apostrophe. */
export function csvValue(v: Value): string {
  if (v === null || v === undefined) return ''
  let text = String(v)
  if (typeof v === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export function csv(titles: string[], rows: Value[][]): string {
  return [titles, ...rows].map((row) => row.map(csvValue).join(',')).join('\r\n') + '\r\n'
}

export function save(name: string, data: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(data)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

export const saveCSV = (name: string, titles: string[], rows: Value[][]): void => save(`${name}.csv`, new Blob([csv(titles, rows)], { type: 'text/csv' }))

const background = () => getComputedStyle(document.documentElement).getPropertyValue('--ground').trim() || '#fff'

/** What a picture needs of the styles, because the style sheet stays behind. */
const properties = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'opacity', 'font-family', 'font-size', 'font-weight', 'font-style', 'text-anchor', 'dominant-baseline', 'display', 'visibility', 'paint-order', 'stroke-linejoin']

async function picture(svg: SVGSVGElement): Promise<HTMLCanvasElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement
  const from = [svg, ...svg.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')]
  from.forEach((element, i) => {
    const style = getComputedStyle(element), target = to[i] as SVGElement
    for (const name of properties) target.setAttribute(name, style.getPropertyValue(name))
    target.removeAttribute('style')
  })
  const box = svg.viewBox.baseVal, width = box?.width || svg.clientWidth, height = box?.height || svg.clientHeight
  copy.setAttribute('width', String(width))
  copy.setAttribute('height', String(height))
  const image = new Image()
  const source = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' }))
  try {
    image.src = source
    await image.decode()
    const canvas = document.createElement('canvas'), scale = Math.min(2, 8000 / Math.max(width, height))
    canvas.width = Math.round(width * scale)
    canvas.height = Math.round(height * scale)
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height)
    return canvas
  } finally {
    URL.revokeObjectURL(source)
  }
}

/** Saves a drawing as a picture, on the ground of the page. */
export async function savePNG(name: string, drawing: SVGSVGElement | HTMLCanvasElement): Promise<void> {
  const source = drawing instanceof HTMLCanvasElement ? drawing : await picture(drawing)
  const canvas = document.createElement('canvas')
  canvas.width = source.width
  canvas.height = source.height
  const context = canvas.getContext('2d')!
  context.fillStyle = background()
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(source, 0, 0)
  const data = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/png'))
  if (data) save(`${name}.png`, data)
}

/** Draws a table, for screens without another drawing. */
export function tablePicture(titles: string[], rows: string[][], right: boolean[]): HTMLCanvasElement {
  const canvas = document.createElement('canvas'), scale = 2, line = 22, pad = 12
  const context = canvas.getContext('2d')!, font = '12px system-ui, sans-serif'
  const ink = getComputedStyle(document.documentElement).getPropertyValue('--ink').trim() || '#000'
  context.font = font
  const all = [titles, ...rows.slice(0, 500)]
  const widths = titles.map((_, i) => Math.min(360, Math.max(...all.map((row) => context.measureText(row[i] ?? '').width))) + 18)
  canvas.width = (widths.reduce((a, b) => a + b, 0) + 2 * pad) * scale
  canvas.height = (all.length * line + 2 * pad) * scale
  context.scale(scale, scale)
  context.font = font
  context.fillStyle = ink
  context.textBaseline = 'middle'
  all.forEach((row, r) => {
    let x = pad
    const y = pad + r * line + line / 2
    if (r === 1) context.fillRect(pad, pad + line, canvas.width / scale - 2 * pad, 0.5)
    row.forEach((text, i) => {
      context.textAlign = right[i] ? 'right' : 'left'
      context.fillText(text, right[i] ? x + widths[i]! - 18 : x, y, widths[i]! - 12)
      x += widths[i]!
    })
  })
  return canvas
}
