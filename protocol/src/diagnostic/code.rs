//! The table of codes. A number is never reused for another fault.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($number:literal $severity:ident $name:ident),* $(,)?) => {
        /// The code of a fault. Each has a page under `pages/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = include_str!(concat!("pages/RN", $number, ".md"))] $name),*
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code in print, such as `RN0123`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => concat!("RN", $number)),* }
            }

            /// Its page, in Markdown; the first line is `# RN0123: title`.
            pub fn page(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("pages/RN", $number, ".md"))),* }
            }

            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),* }
            }
        }
    };
}

// 01 reading a file, 02 structure, 03 types, 04 templates, 05 graph, 06 input, 07 scripts, 08 operator's settings,
// 10 providers, 11 answers, 12 limits, 13 store, 14 threads and commands, 15 hooks, 16 tools (161 files, 162 programs,
// 163 HTTP, 164 MCP), 17 grants and consent, 18 recordings (185 scenarios, 186 snapshots), 19 prefixes of requests and
// warnings to authors before a run (191 simulation, 192 prefixes in files), 20 the server, 21 clusters.
codes! {
    "0101" Error YamlSyntax,
    "0102" Error JsonSyntax,
    "0103" Error TooLarge,
    "0104" Error DuplicateKey,
    "0105" Error NumberOutOfRange,
    "0106" Error YamlTag,
    "0107" Error MergeKey,
    "0108" Error SeveralDocuments,
    "0109" Error UnquotedTemplate,
    "0110" Error CutByComment,
    "0111" Warning CommentBehindText,
    "0112" Error EmptyFile,
    "0113" Error KeyNotText,
    "0114" Warning QuoteInText,
    "0201" Error UnknownKey,
    "0202" Error MissingKey,
    "0203" Error WrongType,
    "0204" Error InvalidName,
    "0205" Error ReservedName,
    "0206" Error FormatVersion,
    "0207" Error InvalidValue,
    "0208" Error NullValue,
    "0209" Error ElseWithoutEdge,
    "0210" Error TemplateInSystem,
    "0211" Error FileOutside,
    "0212" Error FileUnreadable,
    "0213" Error EndlessChildren,
    "0215" Error UnknownHookKind,
    "0218" Error EdgeList,
    "0219" Error KeyInFile,
    "0301" Error UnknownType,
    "0302" Error UnknownKeyword,
    "0303" Error SchemaReference,
    "0304" Error SchemaTooLarge,
    "0305" Error InvalidSchema,
    "0306" Error FieldCalledType,
    "0307" Error InvalidDefault,
    "0401" Error TemplateSyntax,
    "0402" Error TemplateTooLarge,
    "0403" Error TemplateConstruct,
    "0404" Error UnknownFilter,
    "0405" Error FilterArguments,
    "0406" Error BracesInExpression,
    "0410" Error UnknownVariable,
    "0411" Error UnknownField,
    "0412" Error StepMayBeMissing,
    "0413" Error FieldNotInEveryStatus,
    "0414" Error OptionalUnguarded,
    "0415" Error PrintedCollection,
    "0416" Error NotACondition,
    "0417" Error WrongOperand,
    "0418" Error UnknownWord,
    "0419" Warning SingleBraces,
    "0501" Error MissingEdge,
    "0502" Error UnknownStatus,
    "0503" Error UnknownRole,
    "0504" Error UnreachableRole,
    "0505" Error MissingStart,
    "0506" Error MissingGraphEntry,
    "0508" Error IncompleteBound,
    "0509" Error UnboundedCycle,
    "0510" Error DeadEnd,
    "0511" Error MisplacedKey,
    "0512" Error UnknownModel,
    "0513" Error FanOutShape,
    "0514" Error LaneEnd,
    "0515" Error BackWithoutCaller,
    "0517" Error CompactingRole,
    "0518" Warning MissingPrompt,
    "0519" Warning PriceUnknown,
    "0520" Warning UndeclaredTool,
    "0521" Warning ChildModel,
    "0522" Warning ParameterNotTaken,
    "0523" Warning SchemaNotHeld,
    "0601" Error UnknownInput,
    "0602" Error MissingInput,
    "0603" Error InvalidInput,
    "0701" Error ScriptShape,
    "0702" Error ScriptKey,
    "0703" Error ScriptRole,
    "0704" Error ScriptAnswer,
    "0705" Error ScriptEnd,
    "0801" Error SettingsSyntax,
    "0802" Error SettingsKey,
    "0803" Error SettingsValue,
    "0804" Error SettingsVariable,
    "0805" Error SettingsContradiction,
    "0806" Error SettingsClash,
    "1001" Error NoProvider,
    "1002" Error ProviderUnreachable,
    "1003" Error ProviderSilent,
    "1004" Error ProviderBusy,
    "1005" Error ProviderFailed,
    "1006" Error RequestRefused,
    "1007" Error KeyRefused,
    "1008" Error ReplyCut,
    "1009" Error ReplyUnreadable,
    "1010" Error ReplyTooLarge,
    "1011" Error QuotaUsedUp,
    "1108" Error ContractBroken,
    "1109" Error AnswerWithheld,
    "1201" Error StepLimit,
    "1202" Error ThreadLimit,
    "1203" Error VisitLimit,
    "1204" Error StepTimeout,
    "1205" Error RenderFailed,
    "1206" Error Interrupted,
    "1207" Error FormExpired,
    "1208" Error UnfitThread,
    "1301" Error StoreConflict,
    "1302" Error StoreDamaged,
    "1303" Error StorePoisoned,
    "1304" Error StoreBusy,
    "1305" Error StoreUnusable,
    "1306" Error StoreReadOnly,
    "1307" Error StoreFormat,
    "1308" Error StoreRefused,
    "1309" Error StoreUnsafe,
    "1310" Error StoreFull,
    "1401" Error ThreadUnknown,
    "1402" Error ThreadAmbiguous,
    "1403" Error WorkflowNotFound,
    "1404" Error FileRefused,
    "1405" Error InputSyntax,
    "1406" Error ResumeUnclear,
    "1407" Error ThreadEnded,
    "1408" Error WriteFailed,
    "1409" Error InternalFault,
    "1411" Error UnknownCode,
    "1412" Error NotWaiting,
    "1413" Error AnswerUnclear,
    "1414" Error AnswerInvalid,
    "1415" Error LimitUnclear,
    "1416" Error ForkRefused,
    "1417" Error ForkUnclear,
    "1418" Error BatchUnknown,
    "1419" Error ModelUnclear,
    "1420" Error ThreadNeeded,
    "1421" Error NotConfirmed,
    "1422" Error UnknownVerb,
    "1423" Error LabelRefused,
    "1424" Error ImportUnreadable,
    "1425" Error ImportVersion,
    "1426" Error ImportDiffers,
    "1501" Error HookFailed,
    "1502" Error HookSettings,
    "1503" Error HookVerb,
    "1504" Error HookProgramUnknown,
    "1505" Error HookDenied,
    "1506" Error HookProgramFailed,
    "1507" Error HookDecision,
    "1601" Error UnknownTool,
    "1602" Error ToolArguments,
    "1603" Error ToolCallId,
    "1604" Error RepeatedCall,
    "1605" Error ToolInDoubt,
    "1606" Error CallsCut,
    "1607" Error ToolFailed,
    "1610" Error OutsideWorkspace,
    "1611" Error OutOfReach,
    "1612" Error NotAFile,
    "1613" Error NoSuchFile,
    "1614" Error NotText,
    "1615" Error EditUnclear,
    "1616" Error PatchUnusable,
    "1617" Error PathUnusable,
    "1618" Error FileAccessFailed,
    "1619" Error PatternUnusable,
    "1620" Error SandboxMissing,
    "1621" Error ProgramNotStarted,
    "1622" Error ProgramFailed,
    "1623" Error ProgramSignalled,
    "1624" Error ProgramTimedOut,
    "1625" Error ProgramFlooded,
    "1626" Error ProgramMultiplied,
    "1630" Error HttpHost,
    "1631" Error HttpAddress,
    "1632" Error HttpUrl,
    "1633" Error HttpRedirect,
    "1634" Error HttpUnreachable,
    "1635" Error HttpSilent,
    "1636" Error HttpStatus,
    "1637" Error HttpNotText,
    "1638" Error HttpUnreadable,
    "1640" Error McpSettings,
    "1641" Error McpStart,
    "1642" Error McpList,
    "1643" Error McpChanged,
    "1644" Error McpToolFailed,
    "1645" Error McpSilent,
    "1646" Error McpEnded,
    "1647" Error McpUnreadable,
    "1701" Error ToolNotGranted,
    "1702" Error ToolLacking,
    "1703" Error NotTrusted,
    "1704" Error ApprovalMissing,
    "1705" Error SettingsUnsafe,
    "1706" Error StoreForeign,
    "1707" Error NoPin,
    "1708" Error LimitCeiling,
    "1801" Error CassetteShape,
    "1802" Error CassetteVersion,
    "1803" Error CassetteCut,
    "1804" Error CassetteChanged,
    "1805" Error NotRecorded,
    "1806" Error RecordingRefused,
    "1807" Error RecordingFailed,
    "1851" Error ScenarioShape,
    "1852" Error ScenarioKey,
    "1853" Error ScenarioRole,
    "1854" Error ScenarioPath,
    "1855" Error ScenarioFile,
    "1856" Error ScenarioName,
    "1857" Error NoScenario,
    "1858" Error ExpectationFailed,
    "1859" Error ToolUnanswered,
    "1861" Error SnapshotSyntax,
    "1862" Error SnapshotEdited,
    "1863" Error SnapshotFormat,
    "1864" Error SnapshotChanged,
    "1865" Error SnapshotMissing,
    "1866" Error SnapshotStale,
    "1901" Error NothingToCompare,
    "1911" Error RouteFails,
    "1912" Warning EdgeNeverTaken,
    "1913" Warning FieldWithoutValue,
    "1914" Warning WalkCut,
    "1915" Warning LimitBeforeEnd,
    "1921" Warning VolatileText,
    "1922" Warning VolatileInput,
    "1923" Warning ShortPrefix,
    "1924" Warning UnsharedText,
    "2001" Error PortTaken,
    "2002" Error TokenUnusable,
    "2003" Error TokenMissing,
    "2004" Error HostRefused,
    "2005" Error RequestUnreadable,
    "2006" Error ServerFull,
    "2007" Error KeyReused,
    "2008" Error NoSuchRoute,
    "2009" Error NotRunning,
    "2010" Error MessageUnplaced,
    "2101" Error ClusterUnreachable,
    "2102" Error ClusterSilent,
    "2103" Error NoWorker,
    "2104" Error ClusterRefused,
    "2105" Error ClusterAddress,
}

impl Code {
    /// Finds the code that is printed as `text`; upper or lower case, with or without `RN`.
    pub fn find(text: &str) -> Option<Self> {
        let upper = text.to_uppercase();
        let number = upper.strip_prefix("RN").unwrap_or(&upper);
        Self::ALL.iter().copied().find(|code| code.as_str().get(2..) == Some(number))
    }

    /// The first line of its page without the code.
    pub fn title(self) -> &'static str {
        let line = self.page().lines().next().unwrap_or_default();
        line.split_once(": ").map_or(line, |(_, title)| title)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

json_text!(Code);

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_begins_with_its_code_and_says_what_to_do() {
        for code in Code::ALL {
            assert!(code.page().starts_with(&format!("# {code}: ")), "{code}");
            assert!(code.page().lines().count() >= 5, "{code} has no explanation");
            assert_eq!(Code::find(code.as_str()), Some(*code));
            let fences = code.page().lines().filter(|line| line.starts_with("```"));
            let named = fences.step_by(2).all(|fence| fence.len() > 3);
            assert!(named, "{code}: an example without a language is compiled as Rust");
        }
        assert!(Code::ALL.is_sorted_by(|a, b| a.as_str() < b.as_str()), "codes stand in order, each once");
    }
}
