/** The page that shows the OpenAPI document: one file, without scripts, the same offline. */
import { html, raw } from "hono/html";
import { meaningOf, PROBLEM_CODES } from "../problem-codes.ts";
import { ABOUT, openApiDocument } from "./openapi.ts";
import {
  PROBLEM_TYPE,
  SCHEMA_REF,
  type Content,
  type DocumentOperation,
  type DocumentResponse,
  type JsonSchema,
  type OpenApiDocument,
  type Parameter,
  type ResponseReference,
} from "./document.ts";
import { STYLE } from "./style.ts";

type Markup = ReturnType<typeof html>;

interface Listed {
  readonly method: string;
  readonly path: string;
  readonly operation: DocumentOperation;
}

let known: { readonly text: string; readonly policy: string } | null = null;

/** The page; made when it is first asked for. */
export async function pageResponse(headers: Readonly<Record<string, string>>): Promise<Response> {
  known ??= { text: String(await pageOf(openApiDocument())), policy: await policyOf(STYLE) };
  return new Response(known.text, {
    headers: {
      ...headers,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": known.policy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}

/** Nothing may be loaded, run or framed; the one style is named by its hash. */
async function policyOf(style: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
  const base64 = btoa(String.fromCharCode(...new Uint8Array(hash)));
  return `default-src 'none'; style-src 'sha256-${base64}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

function pageOf(document: OpenApiDocument): Markup {
  const { info, tags, paths, components } = document;
  const listed = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Listed => ({ method, path, operation })),
  );
  const groups = tags.map(({ name }) => ({
    name,
    of: listed.filter(({ operation }) => operation.tags.includes(name)),
  }));
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${info.title}</title>
        ${raw(`<style>${STYLE}</style>`)}
      </head>
      <body>
        <h1>${info.title} <small>${info.version}</small></h1>
        ${ABOUT.map((paragraph) => html`<p>${marked(paragraph)}</p>`)}
        <p>Any route may answer, beside what it says:</p>
        ${Object.entries(components.responses).map(([status, response]) =>
          answerOf(status, response),
        )}
        <nav>
          ${groups.map(
            ({ name, of }) =>
              html`<h2>${name}</h2>
                <ul>
                  ${of.map(
                    ({ operation }) =>
                      html`<li>
                        <a href="#${operation.operationId}">${operation.summary}</a>
                      </li>`,
                  )}
                </ul>`,
          )}
        </nav>
        ${groups.map(
          ({ name, of }) =>
            html`<h2>${name}</h2>
              ${of.map(sectionOf)}`,
        )}
        <h2>Schemas</h2>
        ${Object.entries(components.schemas).map(schemaSection)}
        <h2>Errors</h2>
        ${tableOf(
          ["code", "status", "meaning"],
          PROBLEM_CODES.map((code) => {
            const [status, title] = meaningOf(code);
            return { id: code, cells: [codeOf(code), status, title] };
          }),
        )}
      </body>
    </html>`;
}

function sectionOf({ method, path, operation }: Listed): Markup {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const scope = operation.security[0]?.bearer?.join(" and ");
  return html`<section id="${operationId}">
    <h3>
      <a href="#${operationId}">${summary}</a>
      <code>${method.toUpperCase()} ${path}</code>
    </h3>
    ${description === undefined ? "" : html`<p>${marked(description)}</p>`}
    <p>${scope === undefined ? "No token." : html`Scope ${codeOf(scope)}.`}</p>
    ${parameters.length === 0 ? "" : parameterTable(parameters)}
    ${
      requestBody === undefined
        ? ""
        : html`<h4>Body</h4>
            ${contentOf(requestBody.content)}`
    }
    ${Object.entries(responses).map(([status, response]) => answerOf(status, response))}
    <pre>${operation["x-codeSamples"][0]!.source}</pre>
  </section>`;
}

function parameterTable(parameters: readonly Parameter[]): Markup {
  return tableOf(
    ["parameter", "type", ""],
    parameters.map(({ name, in: place, required, description = "", schema }) => ({
      cells: [
        html`${codeOf(name)} ${place}${required ? "" : ", optional"}`,
        typeOf(schema),
        marked(description),
      ],
    })),
  );
}

/** What an answer is; nothing for what any route may answer, which is told once. */
function answerOf(status: string, response: DocumentResponse | ResponseReference): unknown {
  if ("$ref" in response) return "";
  const codes = problemCodesOf(response);
  if (codes.length > 0) return html`<p>${status} ${codes.map(codeLink)}</p>`;
  return html`<h4>${status}</h4>
    <p>${marked(response.description)}</p>
    ${contentOf(response.content ?? {})}`;
}

function problemCodesOf({ content }: DocumentResponse): readonly string[] {
  const parts = content?.[PROBLEM_TYPE]?.schema?.allOf as readonly JsonSchema[] | undefined;
  return (parts?.[1]?.properties?.code?.enum ?? []) as readonly string[];
}

const codeLink = (code: string): Markup => html`<a href="#${code}">${codeOf(code)}</a> `;

function contentOf(content: Content): Markup[] {
  return Object.entries(content)
    .filter(([type]) => type !== PROBLEM_TYPE)
    .map(([type, { schema }]) =>
      schema === undefined ? html`<p>${codeOf(type)}: as it is.</p>` : shapeOf(schema),
    );
}

function schemaSection([name, schema]: [string, JsonSchema]): Markup {
  return html`<section id="schema-${name}">
    <h3><a href="#schema-${name}">${name}</a></h3>
    ${shapeOf(schema)}
  </section>`;
}

/** An object as a table of its fields; anything else in a line. */
function shapeOf(schema: JsonSchema): Markup {
  const rows = rowsOf(schema, "");
  return rows.length === 0
    ? html`<p>${typeOf(schema)} ${marked(schema.description ?? "")}</p>`
    : tableOf(["field", "type", ""], rows);
}

interface Row {
  readonly id?: string;
  readonly cells: readonly unknown[];
}

/** The fields of an object, and those of objects in it that have no name. */
function rowsOf(schema: JsonSchema, path: string): Row[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]): Row[] => {
    const isOptional = !(schema.required ?? []).includes(name);
    const at = `${path}${name}`;
    const row = {
      cells: [
        html`${codeOf(at)}${isOptional ? " optional" : ""}`,
        typeOf(field),
        marked(field.description ?? ""),
      ],
    };
    return [row, ...innerOf(field).flatMap(([inner, suffix]) => rowsOf(inner, at + suffix))];
  });
}

/** What a field has in it, with how that is written behind its name. */
function innerOf(field: JsonSchema): [JsonSchema, string][] {
  const { items, additionalProperties: rest, anyOf = [] } = field;
  if (items !== undefined) {
    return [items, ...(items.anyOf ?? [])].map((item) => [item, "[]."]);
  }
  const inner: [JsonSchema, string][] = anyOf.map((option) => [option, "."]);
  if (typeof rest === "object") inner.push([rest, ".*."]);
  inner.push([field, "."]);
  return inner;
}

function typeOf(schema: JsonSchema): Markup {
  const { $ref, anyOf, oneOf, items, const: only, enum: several, default: otherwise } = schema;
  const suffix = otherwise === undefined ? "" : html`, else ${codeOf(JSON.stringify(otherwise))}`;
  if ($ref !== undefined) {
    const name = $ref.slice(SCHEMA_REF.length);
    return html`<a href="#schema-${name}">${name}</a>${suffix}`;
  }
  const options = anyOf ?? (schema.type === undefined ? oneOf : undefined);
  if (options !== undefined) return html`${joined(options.map(typeOf))}${suffix}`;
  if (items !== undefined) return html`list${rangeOf(schema)} of ${typeOf(items)}`;
  if (only !== undefined) return codeOf(JSON.stringify(only));
  if (several !== undefined) {
    return html`${joined(several.map((value) => codeOf(JSON.stringify(value))))}${suffix}`;
  }
  const { type = "anything", pattern, contentEncoding } = schema;
  return html`${type}${rangeOf(schema)}${pattern === undefined ? "" : html` ${codeOf(pattern)}`}${
    contentEncoding === undefined ? "" : ` in ${contentEncoding}`
  }${suffix}`;
}

/** The range of a number, or of the length of a list. */
function rangeOf({ minimum, exclusiveMinimum, maximum, minItems, maxItems }: JsonSchema): string {
  const from = exclusiveMinimum === undefined ? (minimum ?? minItems) : `above ${exclusiveMinimum}`;
  if (from === undefined) return "";
  const to = maximum ?? maxItems ?? Number.MAX_VALUE;
  return to === Number.MAX_VALUE ? ` (${from} up)` : ` (${from} to ${to})`;
}

const joined = (parts: readonly Markup[]): unknown[] =>
  parts.map((part, i) => (i === 0 ? part : html` or ${part}`));

function tableOf(heads: readonly string[], rows: readonly Row[]): Markup {
  return html`<div>
    <table>
      <tr>
        ${heads.map((head) => html`<th>${head}</th>`)}
      </tr>
      ${rows.map(
        ({ id, cells }) =>
          html`<tr ${id === undefined ? "" : html`id="${id}"`}>
            ${cells.map((cell) => html`<td>${cell}</td>`)}
          </tr>`,
      )}
    </table>
  </div>`;
}

const codeOf = (text: string): Markup => html`<code>${text}</code>`;

/** Text in which backticks enclose code. */
function marked(text: string): unknown[] {
  return text.split("`").map((part, i) => (i % 2 === 0 ? part : codeOf(part)));
}
