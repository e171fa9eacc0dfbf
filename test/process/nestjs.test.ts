/** The storage of @nestjs/throttler in real Nest applications over Express, which share a real server. */
import "reflect-metadata";
import { Controller, Get, Module, type INestApplication } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { Throttle, ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ThrottrStorage } from "throttr-edge/nestjs";
import { startThrottr, type TestServer } from "throttr-edge/testing";

const LIMIT = 10;
const MINUTE_MS = 60_000;
const BLOCK_MS = 5 * MINUTE_MS;

let server: TestServer;
const applications: INestApplication[] = [];

beforeAll(async () => {
  server = await startThrottr();
});

afterEach(async () => {
  for (const application of applications.splice(0)) await application.close();
  await server.flush();
});

afterAll(async () => {
  await server.close();
});

/** Starts an application, and gives its URL. */
async function start(): Promise<string> {
  // Decorators are called as functions: the tests are not compiled with their syntax.
  class HelloController {
    hello(): string {
      return "hello";
    }
    login(): string {
      return "welcome";
    }
  }
  const method = (name: "hello" | "login") =>
    Object.getOwnPropertyDescriptor(HelloController.prototype, name)!;
  Controller()(HelloController);
  Get("hello")(HelloController.prototype, "hello", method("hello"));
  Get("login")(HelloController.prototype, "login", method("login"));
  Throttle({ default: { limit: 2, ttl: MINUTE_MS, blockDuration: 0 } })(
    HelloController.prototype,
    "login",
    method("login"),
  );
  class AppModule {
    readonly name = "app";
  }
  Module({
    imports: [
      ThrottlerModule.forRoot({
        throttlers: [{ ttl: MINUTE_MS, limit: LIMIT, blockDuration: BLOCK_MS }],
        storage: new ThrottrStorage({ throttr: server.client }),
      }),
    ],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    controllers: [HelloController],
  })(AppModule);
  const application = await NestFactory.create(AppModule, { logger: false });
  applications.push(application);
  await application.listen(0, "127.0.0.1");
  return await application.getUrl();
}

it("Nest applications that share a server allow exactly the limit together, then block", async () => {
  const urls = [await start(), await start()];
  const responses = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => await fetch(`${urls[i % 2]}/hello`)),
  );
  const allowed = responses.filter(({ status }) => status === 200);
  expect(allowed).toHaveLength(LIMIT);
  const remaining = allowed.map(({ headers }) => Number(headers.get("x-ratelimit-remaining")));
  expect(remaining.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(responses.filter(({ status }) => status === 429)).toHaveLength(60 - LIMIT);

  const blocked = await fetch(`${urls[0]}/hello`);
  expect(blocked.status).toBe(429);
  const retryAfterMs = Number(blocked.headers.get("retry-after")) * 1_000;
  expect(retryAfterMs).toBeGreaterThan(BLOCK_MS - MINUTE_MS);
  expect(retryAfterMs).toBeLessThanOrEqual(BLOCK_MS);
  await server.advance(BLOCK_MS - 2 * MINUTE_MS);
  expect((await fetch(`${urls[1]}/hello`)).status).toBe(429);
  await server.advance(2 * MINUTE_MS);
  const again = await fetch(`${urls[1]}/hello`);
  expect([again.status, again.headers.get("x-ratelimit-remaining")]).toEqual([200, "9"]);
});

it("a route of Nest without a block is refused until its window ends, by its own limit", async () => {
  const url = await start();
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await fetch(`${url}/login`)).status);
  expect(statuses).toEqual([200, 200, 429]);
  expect((await fetch(`${url}/hello`)).status).toBe(200);
  await server.advance(MINUTE_MS);
  expect((await fetch(`${url}/login`)).status).toBe(200);
});
