"""A report as JUnit XML, which most CI servers show: a test case for each claim.

The dialect is the one that Jenkins' xUnit plugin describes and that pytest keeps to.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as ET

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import ExitCode
from hf_lineage.report.findings import describe_claim, reasons, state_outcome
from hf_lineage.report.words import numbers, wording

OUTCOMES = {
    ExitCode.RELATED: "",
    ExitCode.UNRELATED: "failure",
    ExitCode.ERROR: "error",
    ExitCode.UNDECIDED: "skipped",
}
"""What a claim returns -> what its test case holds; nothing where it passed."""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as XML; `explain` adds the nulls that each score was tested against."""
    counted = Counter(map(_outcome, report.rows))
    totals = {
        "tests": str(len(report.rows)),
        "failures": str(counted["failure"]),
        "errors": str(counted["error"]),
    }
    root = ET.Element("testsuites", {"name": "hf-lineage", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": "hf-lineage", **totals, "skipped": str(counted["skipped"])})
    properties = ET.SubElement(suite, "properties")
    for name, value in {
        "model": report.model,
        "commit": report.commit or "",
        "settings": wording.settings(report),
    }.items():
        ET.SubElement(properties, "property", {"name": name, "value": printable(value, 200)})
    for row in report.rows:
        _case(suite, report, row, explain)
    if remarks := "\n".join(reasons(report)):
        ET.SubElement(suite, "system-out").text = remarks
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return content.decode("ascii") + "\n"


def _case(suite: ET.Element, report: Report, row: Row, explain: bool) -> None:
    relation = f" ({printable(row.claim.relation, 40)})" if row.claim.relation else ""
    name = f"base {printable(row.claim.base, 200)}{relation}"
    case = ET.SubElement(suite, "testcase", {"classname": printable(report.model, 200), "name": name, "time": "0"})
    if element := _outcome(row):
        ET.SubElement(case, element, {"type": row.verdict.words, "message": state_outcome(row)})
    lines = [state_outcome(row)]
    if explain:
        for evidence in row.verdict.evidence.values():
            lines += numbers.null_sentences(evidence)
        lines += [detail for _, finding in describe_claim(report, row) for detail in finding.details]
    ET.SubElement(case, "system-out").text = "\n".join(lines)


def _outcome(row: Row) -> str:
    """What the test case of a claim holds: what is accepted by a policy is skipped, what a policy misses fails."""
    if row.unmet and row.verdict.exit_code is not ExitCode.ERROR:
        return "failure"
    return "skipped" if row.waiver else OUTCOMES[row.verdict.exit_code]
