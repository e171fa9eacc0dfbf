/** What is used of OpenAPI 3.1: the shape of the document. */

/** What is used of JSON Schema. */
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

export type Content = Readonly<
  Record<string, { readonly schema?: JsonSchema; readonly example?: unknown }>
>;

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  readonly example?: string;
}

/** A response that stands among the components. */
export interface ResponseReference {
  readonly $ref: string;
}

export interface DocumentResponse {
  readonly description: string;
  readonly content?: Content;
}

export interface DocumentOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: true; readonly content: Content };
  readonly responses: Readonly<Record<string, DocumentResponse | ResponseReference>>;
  readonly "x-codeSamples": readonly { readonly lang: "Shell"; readonly source: string }[];
}

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

export const SCHEMA_REF = "#/components/schemas/";
export const PROBLEM_TYPE = "application/problem+json";
