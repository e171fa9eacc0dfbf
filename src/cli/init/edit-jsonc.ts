/**
 * Adds to JSON with comments. Only the text of an addition is new: comments, order and spaces elsewhere stay.
 *
 * The editor of jsonc-parser puts a new property between the last one and the comment behind it. So only the tree is
 * the library's; the places are found here.
 */
import { findNodeAtLocation, parseTree, type Node } from "jsonc-parser";
import type { Addition, ConfigValue } from "./json.ts";

/** Lists and objects up to this width stay on one line. */
const LINE_WIDTH = 90;

/** The text with an addition. It must be valid. */
export function withAdditionInJsonc(text: string, { path, value }: Addition): string {
  const root = parseTree(text, [], { allowTrailingComma: true })!;
  const depth = knownDepth(root, path);
  const node = findNodeAtLocation(root, path.slice(0, depth))!;
  const rest = path.slice(depth);
  if (rest.length > 0) return withChildren(text, node, [propertyOf(rest, value)]);
  if (node.type === "array" && Array.isArray(value)) {
    return withChildren(text, node, value as readonly ConfigValue[]);
  }
  if (node.type === "object" && typeof value === "object") {
    const entries = Object.entries(value as Record<string, ConfigValue>);
    return withChildren(
      text,
      node,
      entries.map(([name, entry]) => new Property(name, entry)),
    );
  }
  const written = JSON.stringify(value);
  return text.slice(0, node.offset) + written + text.slice(node.offset + node.length);
}

/** A new property; a list has values instead. */
class Property {
  readonly name: string;
  readonly value: ConfigValue;

  constructor(name: string, value: ConfigValue) {
    this.name = name;
    this.value = value;
  }
}
type Child = Property | ConfigValue;

/** How much of a path is there. */
function knownDepth(root: Node, path: readonly string[]): number {
  let depth = path.length;
  while (findNodeAtLocation(root, path.slice(0, depth)) === undefined) depth--;
  return depth;
}

/** A property with objects around the value for the rest of its path. */
function propertyOf([name, ...rest]: readonly string[], value: ConfigValue): Property {
  let inner = value;
  for (const outer of rest.toReversed()) inner = { [outer]: inner };
  return new Property(name!, inner);
}

/** The text with more items or properties at the end of a list or an object. */
function withChildren(text: string, container: Node, children: readonly Child[]): string {
  const last = container.children?.at(-1);
  if (last === undefined) return inEmpty(text, container, children);
  const end = last.offset + last.length;
  const { comma, lineEnd, isLast } = behind(text, end);
  if (isLast) {
    const more = children.map((child) => ` ${written(child, "", null)}`).join(",");
    return comma === null
      ? `${text.slice(0, end)},${more}${text.slice(end)}`
      : `${text.slice(0, comma)}${more},${text.slice(comma)}`;
  }
  const indent = indentAt(text, last.offset);
  const lines = linesOf(text, children, indent);
  const separated = comma === null ? "," : "";
  const before = text.slice(0, end) + separated + text.slice(end, lineEnd);
  return `${before}${lines}${comma === null ? "" : ","}${text.slice(lineEnd)}`;
}

/** Fills a list or an object without children; it may have comments. */
function inEmpty(text: string, container: Node, children: readonly Child[]): string {
  const close = container.offset + container.length - 1;
  const end = text.slice(0, close).trimEnd().length;
  const outer = indentAt(text, container.offset);
  const lines = linesOf(text, children, outer + unitOf(text));
  if (text.slice(end, close).includes("\n")) return text.slice(0, end) + lines + text.slice(end);
  const inline = children.map((child) => written(child, "", null)).join(", ");
  const isShort = close - lineStart(text, close) + inline.length < LINE_WIDTH;
  const isEmpty = end === container.offset + 1;
  const added =
    isEmpty && !(isShort && container.type === "array") ? lines + newLineOf(text) + outer : inline;
  return text.slice(0, close) + added + text.slice(close);
}

/** New children, each on a line of its own. */
function linesOf(text: string, children: readonly Child[], indent: string): string {
  const newLine = newLineOf(text);
  const layout = { unit: unitOf(text), newLine };
  return children.map((child) => newLine + indent + written(child, indent, layout)).join(",");
}

/** What follows the last child of a list or an object. */
interface Behind {
  /** Just behind its comma; null without one. */
  readonly comma: number | null;
  /** Behind the comments on the same line. */
  readonly lineEnd: number;
  /** Whether the bracket that closes is on the same line. */
  readonly isLast: boolean;
}

/** Spaces, line breaks and comments. */
const TRIVIA = /(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)*/y;
/** The same up to the end of the line. */
const TRIVIA_OF_LINE = /(?:[ \t]|\/\*[^]*?\*\/)*(?:\/\/[^\r\n]*)?/y;

function behind(text: string, end: number): Behind {
  const next = endOf(TRIVIA, text, end);
  const comma = text[next] === "," ? next + 1 : null;
  const lineEnd = endOf(TRIVIA_OF_LINE, text, comma ?? end);
  return { comma, lineEnd, isLast: /[}\]]/.test(text[lineEnd] ?? "") };
}

/** Where a sticky pattern, which also matches nothing, ends. */
function endOf(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  pattern.test(text);
  return pattern.lastIndex;
}

interface Layout {
  readonly unit: string;
  readonly newLine: string;
}

/** A child as text: on one line where it fits, or where there is no layout. */
function written(child: Child, indent: string, layout: Layout | null): string {
  if (child instanceof Property) {
    return `${JSON.stringify(child.name)}: ${written(child.value, indent, layout)}`;
  }
  const compact = compactOf(child);
  if (layout === null || indent.length + compact.length <= LINE_WIDTH) return compact;
  if (typeof child !== "object" || child === null) return compact;
  const inner = indent + layout.unit;
  const isList = Array.isArray(child);
  const children: readonly Child[] = isList
    ? (child as readonly ConfigValue[])
    : Object.entries(child).map(([name, value]) => new Property(name, value as ConfigValue));
  const lines = children.map((some) => layout.newLine + inner + written(some, inner, layout));
  const [open, close] = isList ? "[]" : "{}";
  return `${open}${lines.join(",")}${layout.newLine}${indent}${close}`;
}

function compactOf(value: ConfigValue): string {
  if (Array.isArray(value)) return `[${(value as ConfigValue[]).map(compactOf).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([name, entry]) => {
    return `${JSON.stringify(name)}: ${compactOf(entry as ConfigValue)}`;
  });
  return `{ ${entries.join(", ")} }`;
}

/** The spaces at the start of the line of a place. */
function indentAt(text: string, offset: number): string {
  return /^[ \t]*/.exec(text.slice(lineStart(text, offset), offset))![0];
}

const lineStart = (text: string, offset: number): number =>
  offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;

/** The indentation of the file: that of its first indented line. */
const unitOf = (text: string): string => /^([ \t]+)\S/m.exec(text)?.[1] ?? "  ";

const newLineOf = (text: string): string => (text.includes("\r\n") ? "\r\n" : "\n");
