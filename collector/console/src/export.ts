// SPDX-License-Identifier: Apache-2.0

// Answers as files.
import { fit } from './parts/fit'

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

const clear = (colour: string): boolean => colour === 'transparent' || /^rgba\(.*, 0\)$/.test(colour)

/** Draws a table as it is on the page: the rows that can be seen, with their colours and what is drawn in them. */
export async function shownTable(table: HTMLTableElement): Promise<HTMLCanvasElement> {
  const rows = [...table.rows].filter((row) => row.ariaHidden !== 'true'), pad = 12
  const size = (element: Element) => element.getBoundingClientRect()
  const width = Math.max(...rows.map((row) => size(row).width)), height = rows.reduce((sum, row) => sum + size(row).height, 0)
  const canvas = document.createElement('canvas'), scale = Math.min(2, 8000 / Math.max(width, height))
  canvas.width = Math.round((width + 2 * pad) * scale)
  canvas.height = Math.round((height + 2 * pad) * scale)
  const context = canvas.getContext('2d')!, line = getComputedStyle(document.documentElement).getPropertyValue('--line').trim()
  context.scale(scale, scale)
  context.textBaseline = 'middle'
  let y = pad
  for (const row of rows) {
    let x = pad
    for (const cell of row.cells) {
      const { width, height, left, top } = size(cell), style = getComputedStyle(cell)
      if (width > 0) await drawCell(context, cell, style, { x, y, width, height, left, top })
      x += width
    }
    y += size(row).height
    context.fillStyle = line
    context.fillRect(pad, y - 0.5, width, 0.5)
  }
  return canvas
}

interface Box { x: number; y: number; width: number; height: number; left: number; top: number }

async function drawCell(context: CanvasRenderingContext2D, cell: HTMLTableCellElement, style: CSSStyleDeclaration, box: Box): Promise<void> {
  if (!clear(style.backgroundColor)) {
    context.fillStyle = style.backgroundColor
    context.fillRect(box.x, box.y, box.width, box.height)
  }
  if (style.backgroundImage !== 'none') hatch(context, box)
  const drawing = cell.querySelector('svg')
  if (drawing) {
    const at = drawing.getBoundingClientRect()
    context.drawImage(await picture(drawing), box.x + at.left - box.left, box.y + at.top - box.top, at.width, at.height)
    return
  }
  const inner = cell.querySelector('[class]') ?? cell // its colour says something
  const begin = parseFloat(style.paddingLeft), room = box.width - begin - parseFloat(style.paddingRight)
  context.fillStyle = getComputedStyle(inner).color
  context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`
  const at = ['right', 'end'].includes(style.textAlign) ? 1 : style.textAlign === 'center' ? 0.5 : 0
  context.textAlign = at === 1 ? 'right' : at === 0 ? 'left' : 'center'
  context.fillText(fit(cell.innerText.replace(/\s+/g, ' ').trim(), room, context.font), box.x + begin + at * room, box.y + box.height / 2)
}

/** No data: the ground of such cells is hatched. */
function hatch(context: CanvasRenderingContext2D, { x, y, width, height }: Box): void {
  context.save()
  context.beginPath()
  context.rect(x, y, width, height)
  context.clip()
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--unknown').trim()
  context.lineWidth = 1.5
  for (let i = -height; i < width; i += 8) {
    context.beginPath()
    context.moveTo(x + i, y + height)
    context.lineTo(x + i + height, y)
    context.stroke()
  }
  context.restore()
}

/** Saves the table within a part of the page, as it is there. */
export async function saveShown(name: string, selector: string): Promise<void> {
  const table = document.querySelector<HTMLTableElement>(`${selector} table`)
  if (table) await savePNG(name, await shownTable(table))
}
