/** The metrics of many namespaces in one answer. */
import { SURVEYED_MAX, surveyNamespaces, type SurveyedPage } from "../all-namespaces.ts";
import type { Caller } from "../caller.ts";
import { allMetricsQuery } from "../v1/namespaces.ts";
import { readQuery } from "../v1/request.ts";
import type { Metric, Sample } from "./exposition.ts";
import { metricsOf } from "./metrics.ts";

/**
 * The metrics of the namespaces that a request asks for.
 *
 * @throws ThrottrError `query_invalid`, or as `surveyNamespaces`
 */
export async function askMetricsOfAll(caller: Caller, request: Request): Promise<Metric[]> {
  const { after = null } = readQuery(allMetricsQuery, request);
  return metricsOfNamespaces(await surveyNamespaces(caller, after, SURVEYED_MAX, true));
}

/** All samples of a metric stand together, whatever namespace they are of: the format demands it. */
export function metricsOfNamespaces({ namespaces, next }: SurveyedPage): Metric[] {
  const merged = new Map<string, Metric & { samples: Sample[] }>();
  for (const { name, survey } of namespaces) {
    for (const metric of survey === null ? [] : metricsOf(name, survey)) {
      const known = merged.get(metric.name);
      if (known === undefined) merged.set(metric.name, { ...metric, samples: [...metric.samples] });
      else for (const sample of metric.samples) known.samples.push(sample);
    }
  }
  return [
    {
      name: "throttr_namespace_up",
      type: "gauge",
      help: "Whether the namespace could be asked; if not, its other series are missing.",
      samples: namespaces.map(({ name, survey }) => ({
        labels: { namespace: name },
        value: survey === null ? 0 : 1,
      })),
    },
    {
      name: "throttr_namespaces_left_out",
      type: "gauge",
      help: "Whether namespaces follow that this answer leaves out: ask for them with after=NAME.",
      samples: [
        {
          labels: next === null ? {} : { after: next },
          value: next === null ? 0 : 1,
        },
      ],
    },
    ...merged.values(),
  ];
}
