/** What is used of OpenAPI 3.1: the shape of the document. */

/** What is used of JSON Schema (draft 2020-12). Any keyword may occur; those that `/docs` reads have a type. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
  readonly contentEncoding?: string;
  readonly additionalProperties?: boolean | JsonSchema;
}

/** Bodies by content type. One without a schema is bytes. */
export type Content = Readonly<
  Record<string, { readonly schema?: JsonSchema; readonly example?: unknown }>
>;

/** A parameter of the path, the query or a header. Its example is shown as it would be sent. */
export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  readonly example?: string;
}

/** A response that stands among the components: `#/components/responses/STATUS`. */
export interface ResponseReference {
  readonly $ref: string;
}

/** What comes with a status; without content, an empty body. */
export interface DocumentResponse {
  readonly description: string;
  readonly content?: Content;
}

/** One method of one path. */
export interface DocumentOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  /** Ways to authenticate, each with the scopes that it needs; one of them is enough. Empty: no token. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: true; readonly content: Content };
  readonly responses: Readonly<Record<string, DocumentResponse | ResponseReference>>;
  /** Commands to try it with; documentation tools know the field by this name. */
  readonly "x-codeSamples": readonly { readonly lang: "Shell"; readonly source: string }[];
}

/** The whole document. Its server is `/`, so it is true of each host that serves it. */
export interface OpenApiDocument {
  readonly openapi: "3.1.1";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly responses: Readonly<Record<string, DocumentResponse>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
}

/** What a reference to a component begins with. */
export const SCHEMA_REF = "#/components/schemas/";
/** The content type of errors (RFC 9457). */
export const PROBLEM_TYPE = "application/problem+json";
