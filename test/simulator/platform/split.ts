/**
 * Splits a script in two: functions and classes, which are the same for each isolate, and everything else, which each isolate
 * evaluates for itself. What may hold anything that changes is of the second kind: only functions, classes that evaluate nothing
 * of their own, and constants of simple types are of the first.
 */
import { parseSync } from "oxc-parser";

export interface Parts {
  /** Statements that are evaluated once. */
  readonly shared: string;
  /** Statements that each isolate evaluates, in their order; they assign to `variables`. */
  readonly own: string;
  readonly variables: readonly string[];
  /** Those of them that are assigned to again, later. */
  readonly reassigned: readonly string[];
}

/** A node of the syntax tree, as ESTree has it. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/**
 * @param globals names that each isolate has a value of its own for
 * @throws Error for a statement that can't be split
 */
export function split(source: string, globals: readonly string[]): Parts {
  const { program, errors } = parseSync("bundle.cjs", source, { sourceType: "commonjs" });
  if (errors.length > 0) throw new Error(`the bundle can't be parsed: ${errors[0]!.message}`);
  const body = program.body as unknown as readonly Node[];
  const assigned = assignedNames(body);
  const own = new Set(globals);
  const variables: string[] = [];
  const parts = { shared: [] as string[], own: [] as string[] };
  const keep = (names: readonly string[], statement: string): void => {
    for (const name of names) own.add(name);
    variables.push(...names);
    parts.own.push(statement);
  };
  for (const statement of body) {
    if (statement.type === "FunctionDeclaration") {
      const { name } = statement["id"] as Node & { name: string };
      if (assigned.has(name)) throw new Error(`the function ${name} is assigned to`);
      parts.shared.push(textOf(statement, source));
    } else if (statement.type === "VariableDeclaration") {
      for (const { id, init } of statement["declarations"] as { id: Node; init: Node | null }[]) {
        const names = namesOf(id);
        const isFixed = names.every((name) => !assigned.has(name));
        if (init === null) keep(names, `${names.join(" = ")} = void 0;`);
        else if (isFixed && id.type === "Identifier" && isShared(init, own)) {
          parts.shared.push(`var ${textOf(id, source)} = ${textOf(init, source)};`);
        } else keep(names, `(${textOf(id, source)} = ${textOf(init, source)});`);
      }
    } else if (isOwn(statement, source)) {
      parts.own.push(textOf(statement, source));
    } else {
      throw new Error(`a statement can't be split: ${textOf(statement, source).slice(0, 200)}`);
    }
  }
  return {
    shared: parts.shared.join("\n"),
    own: parts.own.join("\n"),
    variables,
    reassigned: variables.filter((name) => assigned.has(name)),
  };
}

/** Statements whose declarations, if any, are their own, and which assign to nothing that is shared. */
function isOwn({ type, left, expression }: Node, source: string): boolean {
  if (type === "ForOfStatement") return (left as Node)["kind"] === "const";
  if (type !== "ExpressionStatement") return false;
  const { type: kind, left: target } = expression as Node;
  return kind !== "AssignmentExpression" || textOf(target as Node, source) === "module.exports";
}

const textOf = ({ start, end }: Node, source: string): string => source.slice(start, end);

/** Whether an expression has the same value for each isolate, and one that never changes. */
function isShared(node: Node, own: ReadonlySet<string>): boolean {
  switch (node.type) {
    case "ArrowFunctionExpression":
    case "FunctionExpression":
      return true;
    case "Literal":
      // A pattern that is used again begins where its last match has ended.
      return !/[gy]/.test((node["regex"] as { flags: string } | undefined)?.flags ?? "");
    case "UnaryExpression":
      return isShared(node["argument"] as Node, own);
    case "Identifier":
      return !own.has(node["name"] as string);
    case "MemberExpression":
      return node["computed"] === false && isShared(node["object"] as Node, own);
    case "CallExpression":
      return isRequire(node);
    case "ClassExpression":
      return isSharedClass(node, own);
    default:
      return false;
  }
}

/** Modules that are required are the platform's. */
const isRequire = ({ callee }: Node): boolean =>
  (callee as Node).type === "Identifier" && (callee as Node)["name"] === "require";

/** A class that evaluates nothing when it is declared, but which class it extends. */
function isSharedClass({ superClass, body, decorators }: Node, own: ReadonlySet<string>): boolean {
  if (superClass !== null && !isShared(superClass as Node, own)) return false;
  if (((decorators as unknown[] | undefined) ?? []).length > 0) return false;
  return ((body as Node)["body"] as Node[]).every((member) => {
    if (member.type === "StaticBlock") return false;
    if (member["static"] === true && member.type !== "MethodDefinition") return false;
    return member["computed"] !== true || isShared(member["key"] as Node, own);
  });
}

/** Names that are assigned to anywhere, beside where they are declared. */
function assignedNames(body: readonly Node[]): ReadonlySet<string> {
  const names = new Set<string>();
  const add = (target: Node): void => {
    for (const name of namesOf(target)) names.add(name);
  };
  const visit = (value: unknown): void => {
    if (value === null || typeof value !== "object") return;
    if (Array.isArray(value)) {
      for (const each of value) visit(each);
      return;
    }
    const node = value as Node;
    if (node.type === "AssignmentExpression") add(node["left"] as Node);
    else if (node.type === "UpdateExpression") add(node["argument"] as Node);
    else if (node.type === "ForOfStatement" || node.type === "ForInStatement") {
      add(node["left"] as Node);
    }
    for (const field in node) visit(node[field]);
  };
  visit(body);
  return names;
}

/** Names that a pattern assigns to. */
function namesOf(pattern: Node | null): string[] {
  switch (pattern?.type) {
    case "Identifier":
      return [pattern["name"] as string];
    case "ArrayPattern":
      return (pattern["elements"] as (Node | null)[]).flatMap(namesOf);
    case "ObjectPattern":
      return (pattern["properties"] as Node[]).flatMap((property) =>
        namesOf((property["value"] ?? property["argument"]) as Node),
      );
    case "AssignmentPattern":
      return namesOf(pattern["left"] as Node);
    case "RestElement":
      return namesOf(pattern["argument"] as Node);
    default:
      // A property of an object, or a declaration of its own.
      return [];
  }
}
